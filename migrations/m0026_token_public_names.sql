-- Host names a Proxy's certificate may carry, as the operator allowed them; separated by spaces.
ALTER TABLE join_tokens ADD COLUMN public_names TEXT NOT NULL DEFAULT '';
