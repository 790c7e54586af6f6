# SPDX-License-Identifier: Apache-2.0
# fish completion for tabletfs(1) and tabletfs-server(1), from their help.
function __tabletfs_options
	set -l done (commandline -ct | string match -r '.*,')
	for word in ($argv[1] -h | string match -ar -- '-o [a-z_]+=?' | string replace -- '-o ' '')
		echo "$done$word"
	end
end
for program in tabletfs tabletfs-server
	complete -c $program -f -a '(__fish_complete_directories (commandline -ct))'
	complete -c $program -n '__fish_seen_argument -s o; and string match -q -- -o (commandline -opc)[-1]' -f -a "(__tabletfs_options $program)"
	complete -c $program -n 'string match -q -- "-*" (commandline -ct)' -f -a "($program -h | string match -ar -- '^ +-.*' | string match -ar -- ' --?[A-Za-z][a-z-]*' | string trim)"
end
complete -c tabletfs -n 'string match -qr "^[^-/]+$" -- (commandline -ct)' -f -a 'unix: (__fish_print_hostnames | string replace -r "\$" ":")'
