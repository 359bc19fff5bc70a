"""The node types of PostgreSQL 18's parse tree, by what they mean for what a statement does.

Data only.  A type that stands nowhere here and has no rule in ``walk`` makes a statement
incomplete, which is denied unless a policy allows what nobody could read.
"""

from __future__ import annotations

from collections.abc import Mapping

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
    dblink dblink_cancel_query dblink_close dblink_connect dblink_connect_u
    dblink_disconnect dblink_error_message dblink_exec dblink_fetch dblink_get_notify
    dblink_get_result dblink_is_busy dblink_open dblink_send_query lo_export lo_import
    pg_file_length pg_file_read pg_file_rename pg_file_sync pg_file_unlink pg_file_write
    pg_hba_file_rules pg_ident_file_mappings pg_logdir_ls pg_ls_archive_statusdir pg_ls_dir
    pg_ls_logdir pg_ls_logicalmapdir pg_ls_logicalsnapdir pg_ls_replslotdir
    pg_ls_summariesdir pg_ls_tmpdir pg_ls_waldir pg_read_binary_file pg_read_file
    pg_read_file_old pg_show_all_file_settings pg_stat_file postgres_fdw_disconnect
    postgres_fdw_disconnect_all
    """
)
"""Functions that reach the server's files or other servers."""

WRITING_FUNCTIONS = _words(
    """
    binary_upgrade_create_empty_extension binary_upgrade_set_missing_value
    binary_upgrade_set_next_array_pg_type_oid binary_upgrade_set_next_heap_pg_class_oid
    binary_upgrade_set_next_heap_relfilenode binary_upgrade_set_next_index_pg_class_oid
    binary_upgrade_set_next_index_relfilenode
    binary_upgrade_set_next_multirange_array_pg_type_oid
    binary_upgrade_set_next_multirange_pg_type_oid binary_upgrade_set_next_pg_authid_oid
    binary_upgrade_set_next_pg_enum_oid binary_upgrade_set_next_pg_tablespace_oid
    binary_upgrade_set_next_pg_type_oid binary_upgrade_set_next_toast_pg_class_oid
    binary_upgrade_set_next_toast_relfilenode binary_upgrade_set_record_init_privs
    brin_desummarize_range brin_summarize_new_values brin_summarize_range
    gin_clean_pending_list heap_force_freeze heap_force_kill lo_creat lo_create
    lo_from_bytea lo_put lo_truncate lo_truncate64 lo_unlink lowrite nextval pg_backup_start
    pg_backup_stop pg_buffercache_evict pg_buffercache_evict_all
    pg_buffercache_evict_relation pg_cancel_backend pg_clear_attribute_stats
    pg_clear_extended_stats pg_clear_relation_stats pg_copy_logical_replication_slot
    pg_copy_physical_replication_slot pg_create_logical_replication_slot
    pg_create_physical_replication_slot pg_create_restore_point pg_drop_replication_slot
    pg_extension_config_dump pg_import_system_collations pg_log_backend_memory_contexts
    pg_logical_emit_message pg_logical_slot_get_binary_changes pg_logical_slot_get_changes
    pg_nextoid pg_promote pg_reload_conf pg_replication_origin_advance
    pg_replication_origin_create pg_replication_origin_drop
    pg_replication_origin_session_reset pg_replication_origin_session_setup
    pg_replication_origin_xact_reset pg_replication_origin_xact_setup
    pg_replication_slot_advance pg_restore_attribute_stats pg_restore_extended_stats
    pg_restore_relation_stats pg_rotate_logfile pg_rotate_logfile_old pg_start_backup
    pg_stat_reset pg_stat_reset_backend_stats pg_stat_reset_replication_slot
    pg_stat_reset_shared pg_stat_reset_single_function_counters
    pg_stat_reset_single_table_counters pg_stat_reset_slru pg_stat_reset_subscription_stats
    pg_stat_statements_reset pg_stop_backup pg_stop_making_pinned_objects pg_switch_wal
    pg_switch_xlog pg_sync_replication_slots pg_terminate_backend pg_truncate_visibility_map
    pg_wal_replay_pause pg_wal_replay_resume pg_xlog_replay_pause pg_xlog_replay_resume
    setval
    """
)
"""Functions that change something, be it the state of the server."""

LOCKING_FUNCTIONS = _words(
    """
    pg_advisory_lock pg_advisory_lock_shared pg_advisory_unlock pg_advisory_unlock_all
    pg_advisory_unlock_shared pg_advisory_xact_lock pg_advisory_xact_lock_shared
    pg_try_advisory_lock pg_try_advisory_lock_shared pg_try_advisory_xact_lock
    pg_try_advisory_xact_lock_shared
    """
)
"""Functions that take or give back locks."""

EFFECTS_OF_FUNCTIONS: Mapping[str, frozenset[str]] = {
    "set": CHANGING_SETTINGS,
    "unsafe_io": REACHING_FUNCTIONS,
    "write": WRITING_FUNCTIONS,
    "lock": LOCKING_FUNCTIONS,
    "notify": frozenset({"pg_notify"}),
}
"""A function that stands nowhere here is a plain part of the statement."""

READING_LARGE_OBJECTS = _words("lo_export lo_get lo_open loread")
LARGE_OBJECTS = "pg_catalog.pg_largeobject"
"""The table that they read."""

RUNNING_TEXT = _words(
    """
    connectby crosstab crosstab2 crosstab3 crosstab4 currtid currtid2 cursor_to_xml
    cursor_to_xmlschema database_to_xml database_to_xml_and_xmlschema database_to_xmlschema
    dblink dblink_build_sql_delete dblink_build_sql_insert dblink_build_sql_update
    dblink_exec dblink_fetch dblink_get_result dblink_open dblink_send_query get_raw_page
    pg_logical_slot_get_binary_changes pg_logical_slot_get_changes
    pg_logical_slot_peek_binary_changes pg_logical_slot_peek_changes query_to_xml
    query_to_xml_and_xmlschema query_to_xmlschema schema_to_xml schema_to_xml_and_xmlschema
    schema_to_xmlschema table_to_xml table_to_xml_and_xmlschema table_to_xmlschema
    ts_rewrite ts_stat xpath_table
    """
)
"""Functions that run a text, or show tables that no name in the statement tells."""
