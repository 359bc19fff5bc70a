-- The same for the node that spent the token: each renewal carries them on.
ALTER TABLE nodes ADD COLUMN public_names TEXT NOT NULL DEFAULT '';
