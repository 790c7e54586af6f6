# SPDX-License-Identifier: Apache-2.0
# fish completion for tabletfs(1), from its help.
function __tabletfs_options
	set -l done (commandline -ct | string match -r '.*,')
	for word in (tabletfs -h | string match -ar -- '-o [a-z_]+=?' | string replace -- '-o ' '')
		echo "$done$word"
	end
end
complete -c tabletfs -f -a '(__fish_complete_directories (commandline -ct))'
complete -c tabletfs -n '__fish_seen_argument -s o; and string match -q -- -o (commandline -opc)[-1]' -f -a '(__tabletfs_options)'
complete -c tabletfs -n 'string match -q -- "-*" (commandline -ct)' -f -a "(tabletfs -h | string match -ar -- '^ +-.*' | string match -ar -- ' --?[A-Za-z][a-z-]*' | string trim)"
