/* SPDX-License-Identifier: Apache-2.0 */
/* The texts of /.tabletfs/help, .snap/.help and ROW/.mutate: commands, ordered by job. */
#include "fs/node/help.h"

int help_render(struct node *n, struct buf *out)
{
	return buf_printf(out,
		"TABLE/ROW/FAMILY/QUALIFIER is a cell.  ls does not show the names below that begin with a dot.\n"
		"\n"
		"Tables and families\n"
		"  mkdir -p t/row/family                      makes a table, a row and a family\n"
		"  cat t/.schema                              families, garbage collection, locality groups\n"
		"  echo 'protect = true;' >> t/.schema        changes a key of the schema\n"
		"  echo maxversions=3 > t/.families/f/gc      which versions of a family exist\n"
		"  rmdir t/.families/f                        deletes a family; rmdir t drops an empty table\n"
		"  echo truncate > t/.ctl                     removes all rows; cat t/.ctl lists such verbs\n"
		"\n"
		"Cells and rows\n"
		"  echo value > t/row/f/q                     writes a version;  cat, rm, mv, cp, tail -F\n"
		"  ls t/row/f                                 q, and a version as q@TIMESTAMP\n"
		"  printf 'set f:q\\tx\\ncommit\\n' > t/row/.mutate   changes a row in one step; cat it for its verbs\n"
		"  cat t/row/.row.json                        the whole row\n"
		"  ls t/.latest                               the newest versions only, for rsync, tar and grep -r\n"
		"\n"
		"Search\n"
		"  ls t/.scan                                 the clauses; cat t/.scan/prefix= explains one\n"
		"  ls t/.scan/prefix=com.cnn/limit=10/.rows   the rows that match\n"
		"  cat t/.scan/family=f/since=1d/.tsv         the cells; also .csv .jsonl .tar .keys .count\n"
		"  cat t/.splits                              ranges of rows for parallel jobs\n"
		"  ls t/.scripts                              scripts in Lua, which t/.scan/.run/NAME runs\n"
		"\n"
		"Copies\n"
		"  mkdir t/.snap/monday                       a snapshot; mkdir .snap/monday: of all tables\n"
		"  tar -c .snap/monday                        a backup of one instant\n"
		"  cat t/.export.tar > t.tar                  all versions;  cat t.tar > new/.import.tar\n"
		"  cat cells.tsv > t/.import                  imports; also .jsonl and .tar\n"
		"  cat t/.changes/from=start/.tsv             the changes of a table with changes = \"7d\"\n"
		"\n"
		"The store\n"
		"  cat .tabletfs/status                       state, memory and warnings\n"
		"  cat .tabletfs/refused                      why a command was refused\n"
		"  cat .tabletfs/config                       settings; echo NAME=VALUE > .tabletfs/config sets one\n"
		"  cat .tabletfs/metrics                      counters, for Prometheus\n"
		"  cat t/.tablets                             the tablets, their sizes and servers\n"
		"  man tabletfs; man tabletfs-cookbook        more of each;  tabletctl -h\n");
}

int help_render_snap(struct node *n, struct buf *out)
{
	return buf_printf(out,
		"mkdir .snap/NAME   makes a snapshot of one instant; in the root's .snap, of every table\n"
		"ls .snap           the snapshots\n"
		"ls .snap/NAME      its rows, which can only be read\n"
		"rmdir .snap/NAME   drops it\n"
		"TABLE/.snap/NAME/.since lists the differences from older snapshots: tabletfs-scan(7)\n");
}

int help_append_mutate(struct buf *out)
{
	return buf_printf(out,
		"Write lines, and commit applies them as one change of the row:\n"
		"  set F:Q<tab>VALUE       append F:Q<tab>BYTES     increment F:Q<tab>N\n"
		"  set F:Q@TS<tab>VALUE    delete F:Q               delete F:Q@TS\n"
		"  check F:Q<tab>VALUE     check-absent F:Q         commit\n"
		"printf 'set f:q\\tvalue\\ncommit\\n' > ROW/.mutate;  tabletfs-scan(7) has all verbs\n");
}
