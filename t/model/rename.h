/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Force-included (-include) when the model is built as the reference in one
 * program with the real library: every function of engine/tabletfs.h becomes
 * model_*, every type keeps its name.  A function that shares its name with a
 * struct gets a function-like macro, which leaves "struct tfs_usage" alone.
 */
#ifndef MODEL_RENAME_H
#define MODEL_RENAME_H

#define tfs_options_init model_options_init
#define tfs_options_load model_options_load
#define tfs_options_example model_options_example
#define tfs_open model_open
#define tfs_close model_close
#define tfs_error model_error
#define tfs_run_new model_run_new
#define tfs_run_next model_run_next
#define tfs_run_error model_run_error
#define tfs_run_free model_run_free
#define tfs_script_check model_script_check
#define tfs_sync model_sync
#define tfs_space model_space
#define tfs_status model_status
#define tfs_status_for model_status_for
#define tfs_config model_config
#define tfs_config_change model_config_change
#define tfs_config_replace model_config_replace
#define tfs_will_close model_will_close
#define tfs_confirm_clock model_confirm_clock
#define tfs_watch model_watch
#define tfs_unwatch model_unwatch
#define tfs_feed_open model_feed_open
#define tfs_feed_at_hand model_feed_at_hand
#define tfs_feed_next model_feed_next
#define tfs_feed_opened_us model_feed_opened_us
#define tfs_feed_token model_feed_token
#define tfs_feed_wait model_feed_wait
#define tfs_feed_notify model_feed_notify
#define tfs_feed_free model_feed_free
#define tfs_key model_key
#define tfs_login model_login
#define tfs_metrics model_metrics
#define tfs_servers model_servers
#define tfs_answers model_answers
#define tfs_clients model_clients
#define tfs_client_refuse model_client_refuse
#define tfs_name_valid model_name_valid
#define tfs_table_create model_table_create
#define tfs_table_drop model_table_drop
#define tfs_table_rename model_table_rename
#define tfs_table_truncate model_table_truncate
#define tfs_table_list model_table_list
#define tfs_table_open model_table_open
#define tfs_table_close model_table_close
#define tfs_table_id model_table_id
#define tfs_table_empty model_table_empty
#define tfs_snapshot_usage model_snapshot_usage
#define tfs_snapshot_create model_snapshot_create
#define tfs_snapshot_drop model_snapshot_drop
#define tfs_snapshot_open model_snapshot_open
#define tfs_snapshot_list model_snapshot_list
#define tfs_snapshot_create_all model_snapshot_create_all
#define tfs_snapshot_drop_all model_snapshot_drop_all
#define tfs_snapshot_list_all model_snapshot_list_all
#define tfs_table_clone model_table_clone
#define tfs_schema_get model_schema_get
#define tfs_schema_put model_schema_put
#define tfs_schema_family model_schema_family
#define tfs_schema_group model_schema_group
#define tfs_may model_may
#define tfs_acl_next model_acl_next
#define tfs_table_as model_table_as
#define tfs_schema_script model_schema_script
#define tfs_script_name_valid model_script_name_valid
#define tfs_script_set model_script_set
#define tfs_schema_set_text model_schema_set_text
#define tfs_schema_text_begins model_schema_text_begins
#define tfs_schema_change model_schema_change
#define tfs_mutation_new model_mutation_new
#define tfs_mutation_free model_mutation_free
#define tfs_mutation_put model_mutation_put
#define tfs_mutation_write model_mutation_write
#define tfs_mutation_delete_version model_mutation_delete_version
#define tfs_mutation_delete_column model_mutation_delete_column
#define tfs_mutation_delete_family model_mutation_delete_family
#define tfs_mutation_delete_row model_mutation_delete_row
#define tfs_mutation_set_time model_mutation_set_time
#define tfs_mutation_move model_mutation_move
#define tfs_mutation_increment model_mutation_increment
#define tfs_mutation_check model_mutation_check
#define tfs_mutation_check_family model_mutation_check_family
#define tfs_apply model_apply
#define tfs_scan_new model_scan_new
#define tfs_scan_next model_scan_next
#define tfs_scan_free model_scan_free
#define tfs_fingerprint model_fingerprint
#define tfs_stat model_stat
#define tfs_read model_read
#define tfs_row_exists model_row_exists
#define tfs_usage(...) model_usage(__VA_ARGS__)
#define tfs_tablets model_tablets
#define tfs_split model_split
#define tfs_splits model_splits
#define tfs_merge model_merge
#define tfs_flush model_flush
#define tfs_compact model_compact
#define tfs_purge model_purge

#endif
