# SPDX-License-Identifier: Apache-2.0
# fish completion for tabletctl(1).  `tabletctl complete' knows the words.  For
# paths of rows in other commands, after this file was read: complete -c cat -f -a '(__tabletctl_complete scan)'
function __tabletctl_complete
	set -l words $argv
	set -q argv[1]; or set words (commandline -opc)[2..-1]
	tabletctl complete -- $words (commandline -ct | string unescape) 2>/dev/null
	if test $status -eq 1
		__fish_complete_path (commandline -ct)
	end
end
complete -c tabletctl -f -a '(__tabletctl_complete)'
