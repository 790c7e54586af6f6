# SPDX-License-Identifier: Apache-2.0
dist_man_MANS += %D%/tabletfs.1 %D%/tabletfs-server.1 %D%/tabletfs-master.1 %D%/tabletctl.1 %D%/libtabletfs.3 %D%/tabletfs-python.3 %D%/tabletfs.conf.5 %D%/tabletfs-schema.5 %D%/tabletfs-formats.5 %D%/tabletfs.7 \
	%D%/tabletfs-backup.7 %D%/tabletfs-boot.7 %D%/tabletfs-cluster.7 %D%/tabletfs-cookbook.7 %D%/tabletfs-from.7 %D%/tabletfs-jobs.7 %D%/tabletfs-keys.7 %D%/tabletfs-metrics.7 %D%/tabletfs-remote.7 %D%/tabletfs-scan.7 %D%/tabletfs-script.7
bashcompdir = $(datadir)/bash-completion/completions
dist_bashcomp_DATA = completion/tabletfs completion/tabletfs-server completion/tabletctl
zshcompdir = $(datadir)/zsh/site-functions
dist_zshcomp_DATA = completion/zsh/_tabletfs completion/zsh/_tabletctl
fishcompdir = $(datadir)/fish/vendor_completions.d
dist_fishcomp_DATA = completion/fish/tabletfs.fish completion/fish/tabletfs-server.fish completion/fish/tabletctl.fish
