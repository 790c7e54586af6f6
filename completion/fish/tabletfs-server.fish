# SPDX-License-Identifier: Apache-2.0
# fish completion for tabletfs-server(1).  fish loads a file by the name of the command.
source (status dirname)/tabletfs.fish
