"""The node types of PostgreSQL 18's parse tree, by what they mean for what a statement does.

Data only.  A type that stands nowhere here and has no rule in ``walk`` makes a statement
incomplete, which is denied unless a policy allows what nobody could read.
"""

from __future__ import annotations

GRAMMAR = 180004
"""The version of the grammar that these lists were made for."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


DEFINING = _words(
    """
    AlterCollationStmt AlterDatabaseRefreshCollStmt AlterDatabaseSetStmt AlterDatabaseStmt
    AlterDefaultPrivilegesStmt AlterDomainStmt AlterEnumStmt AlterEventTrigStmt
    AlterExtensionContentsStmt AlterExtensionStmt AlterFdwStmt AlterForeignServerStmt
    AlterFunctionStmt AlterObjectDependsStmt AlterObjectSchemaStmt AlterOpFamilyStmt
    AlterOperatorStmt AlterOwnerStmt AlterPolicyStmt AlterPublicationStmt AlterRoleSetStmt
    AlterRoleStmt AlterSeqStmt AlterStatsStmt AlterSubscriptionStmt AlterSystemStmt
    AlterTSConfigurationStmt AlterTSDictionaryStmt AlterTableMoveAllStmt
    AlterTableSpaceOptionsStmt AlterTableStmt AlterTypeStmt AlterUserMappingStmt CheckPointStmt
    ClusterStmt CommentStmt CompositeTypeStmt CreateAmStmt CreateCastStmt CreateConversionStmt
    CreateDomainStmt CreateEnumStmt CreateEventTrigStmt CreateExtensionStmt CreateFdwStmt
    CreateForeignServerStmt CreateForeignTableStmt CreateFunctionStmt CreateOpClassStmt
    CreateOpFamilyStmt CreatePLangStmt CreatePolicyStmt CreatePublicationStmt CreateRangeStmt
    CreateRoleStmt CreateSchemaStmt CreateSeqStmt CreateStatsStmt CreateStmt
    CreateSubscriptionStmt CreateTableSpaceStmt CreateTransformStmt CreateTrigStmt
    CreateUserMappingStmt CreatedbStmt DefineStmt DropOwnedStmt DropRoleStmt DropStmt
    DropSubscriptionStmt DropTableSpaceStmt DropUserMappingStmt DropdbStmt GrantRoleStmt
    GrantStmt ImportForeignSchemaStmt IndexStmt ReassignOwnedStmt ReindexStmt RenameStmt
    ReplicaIdentityStmt RuleStmt SecLabelStmt VacuumStmt ViewStmt
    """
)
"""Statements that change what the database is rather than what it holds: ``ddl``."""

REACHING_OUT = _words(
    """
    AlterSystemStmt CreateExtensionStmt CreateFdwStmt CreatePLangStmt CreateSubscriptionStmt
    CreateTableSpaceStmt CreateForeignServerStmt CreateUserMappingStmt ImportForeignSchemaStmt
    """
)
"""Those of them that reach files, programs or other servers: ``unsafe_io`` too."""

PLAIN = _words(
    """
    A_ArrayExpr A_Const A_Expr A_Indices A_Indirection A_Star ATAlterConstraint AccessPriv Alias
    AlterTableCmd BitString BoolExpr Boolean BooleanTest CTECycleClause CTESearchClause CaseExpr
    CaseWhen CoalesceExpr CollateClause ColumnDef ColumnRef Constraint CreateOpClassItem
    CurrentOfExpr DefElem Float FunctionParameter GroupingFunc GroupingSet IndexElem InferClause
    Integer JoinExpr JsonAggConstructor JsonArgument JsonArrayAgg JsonArrayConstructor
    JsonArrayQueryConstructor JsonBehavior JsonFormat JsonFuncExpr JsonIsPredicate JsonKeyValue
    JsonObjectAgg JsonObjectConstructor JsonOutput JsonParseExpr JsonReturning JsonScalarExpr
    JsonSerializeExpr JsonTable JsonTableColumn JsonTablePathSpec JsonValueExpr List
    MergeSupportFunc MergeWhenClause MinMaxExpr MultiAssignRef NamedArgExpr NullTest
    ObjectWithArgs OnConflictClause ParamRef PartitionBoundSpec PartitionCmd PartitionElem
    PartitionRangeDatum PartitionSpec PublicationObjSpec PublicationTable RangeFunction
    RangeSubselect RangeTableFunc RangeTableFuncCol ResTarget ReturnStmt ReturningClause
    ReturningOption RoleSpec RowExpr SQLValueFunction ScalarArrayOpExpr SetToDefault SortBy
    StatsElem String SubLink TableLikeClause TriggerTransition TypeCast TypeName VacuumRelation
    WindowDef XmlExpr XmlSerialize
    """
)
"""Parts that do nothing by themselves; what is in them is looked at."""

PARTS_OF_TABLES = frozenset(
    {"OBJECT_COLUMN", "OBJECT_POLICY", "OBJECT_RULE", "OBJECT_TABCONSTRAINT", "OBJECT_TRIGGER"}
)
"""Sorts of objects whose last name is their own, behind that of their table."""

CHANGING_SETTINGS = frozenset({"set_config"})

REACHING_FUNCTIONS = _words(
    """
    dblink dblink_connect dblink_connect_u dblink_exec dblink_open dblink_send_query lo_export
    lo_import pg_file_rename pg_file_sync pg_file_unlink pg_file_write pg_ls_archive_statusdir
    pg_ls_dir pg_ls_logdir pg_ls_tmpdir pg_ls_waldir pg_read_binary_file pg_read_file
    pg_stat_file
    """
)
"""Functions that reach the server's files or other servers: ``unsafe_io``."""

WRITING_FUNCTIONS = _words(
    """
    lo_create lo_creat lo_from_bytea lo_put lo_truncate lo_truncate64 lo_unlink lowrite nextval
    pg_cancel_backend pg_create_restore_point pg_logical_emit_message pg_promote pg_reload_conf
    pg_rotate_logfile pg_switch_wal pg_terminate_backend setval
    """
)
"""Functions that change something: ``write``."""

RUNNING_TEXT = _words(
    """
    connectby crosstab cursor_to_xml cursor_to_xmlschema database_to_xml
    database_to_xml_and_xmlschema database_to_xmlschema dblink dblink_exec dblink_send_query
    query_to_xml query_to_xml_and_xmlschema query_to_xmlschema schema_to_xml
    schema_to_xml_and_xmlschema schema_to_xmlschema table_to_xml table_to_xml_and_xmlschema
    table_to_xmlschema ts_rewrite ts_stat
    """
)
"""Functions that run a text, or read a table that is named by a text: nobody knows which."""
