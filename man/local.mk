# SPDX-License-Identifier: Apache-2.0
dist_man_MANS += %D%/tabletfs.1 %D%/tabletctl.1 %D%/tabletfs.conf.5 %D%/tabletfs.7
bashcompdir = $(datadir)/bash-completion/completions
dist_bashcomp_DATA = completion/tabletfs completion/tabletctl
