-- `why` asks for one decision among millions of records.
CREATE INDEX audit_by_decision ON audit_log (decision_id) WHERE decision_id IS NOT NULL;
