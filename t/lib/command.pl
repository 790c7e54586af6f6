# SPDX-License-Identifier: Apache-2.0
# Functions for tests in Perl that run commands.  The test sets $w to a directory of its own.
use strict;
use warnings;

our $w;

sub slurp {
	my ($path) = @_;
	open my $f, '<:raw', $path or die "$path: $!";
	local $/;
	return <$f> // '';
}

sub spill {
	my ($path, $data) = @_;
	open my $f, '>:raw', $path or die "$path: $!";
	print $f $data;
	close $f or die "$path: $!";
}

# Whether this run tries the point with this number (t/lib/share.h).
sub in_share {
	my ($point) = @_;
	my $share = $ENV{TEST_SHARE} || 1;
	return $point % $share == ($ENV{TEST_SEED} // 0) % $share;
}

# Starts a command.  Returns its process.
sub start {
	my @command = @_;
	my $pid = fork // die "fork: $!";
	if (!$pid) {
		open STDOUT, '>', "$w/out" or die;
		open STDERR, '>', "$w/err" or die;
		exec { $command[0] } @command or exit 127;
	}
	return $pid;
}

# Waits for the last process started.  Returns its exit status (128 + signal if killed), standard output and standard error.
sub finish {
	my ($pid) = @_;
	waitpid $pid, 0;
	my $status = $? & 127 ? 128 + ($? & 127) : $? >> 8;
	return ($status, slurp("$w/out"), slurp("$w/err"));
}

sub run {
	return finish(start(@_));
}

1;
