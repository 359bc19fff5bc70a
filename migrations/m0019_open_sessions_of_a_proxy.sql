-- A Proxy that comes back claims its open sessions; ended ones cost this nothing.
CREATE INDEX open_sessions_of_a_proxy ON sessions (proxy_id, started_at) WHERE state = 'open';
