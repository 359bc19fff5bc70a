-- A registration asks for everything assigned to one node.
CREATE INDEX resources_of_a_node ON resources (assigned_to) WHERE assigned_to IS NOT NULL;
