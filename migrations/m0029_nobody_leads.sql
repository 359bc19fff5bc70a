-- The row of the lease before anybody held it.
INSERT INTO lease (one, epoch, owner, instance, beats) VALUES (1, 0, '', '', 0);
