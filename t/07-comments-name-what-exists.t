#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Each name of a function, constant or file in a comment, in doc/, README or HACKING
# exists.  A name is a word with an underscore or with `()', or a path below a
# directory of the tree.
use strict;
use warnings;

my $src = $ENV{SRC} || '.';

# Names of the kernel, of libraries and of specifications that no code of ours has.
my %foreign = map { $_ => 1 } qw(
	FUSE_EXPORT_SUPPORT FUSE_NOTIFY_INC_EPOCH fuse_init_out F_SETLKW O_DIRECT io_uring sd_notify
	XXH3_64bits vectors_sip64 called_from_lib);

# Returns (code, comments) of a file.
sub parts {
	my ($path, $text) = @_;
	my $comments = '';
	if ($path =~ /\.(?:c|h|cc)$/) {
		$text =~ s{(/\*.*?\*/)}{ $comments .= "$1\n"; ' ' }gse;
		return ($text, $comments);
	}
	return ('', $text) if $path =~ m{^(?:doc/|README$|HACKING$)};
	return ('', '') if $path =~ m{^(?:man/|NEWS$|t/README$|debian/changelog$)};
	$text =~ s{^([ \t]*#.*\n)}{ $comments .= $1; '' }gme;
	return ($text, $comments);
}

# Returns a line for each name in the comments that is neither in the code nor foreign.  files: path => text.
sub missing {
	my (%files) = @_;
	my (%known, %prose, @bad);
	for my $path (sort keys %files) {
		my ($code, $comments) = parts($path, $files{$path});
		$known{$_} = 1 for $code =~ /\w+/g, $path =~ /\w+/g;
		$prose{$path} = $comments;
	}
	my $exists = sub {
		my ($name) = @_;
		return $known{$name} || $foreign{$name} || $known{"TS_$name"} # methods, in lists of them
			|| $name =~ /NAME|_X$/                                 # stands for several
			|| $name =~ /^RANK_(.*)$/ && $known{$1}                # enum lock_rank is made from a list
			|| $name =~ /^(.*)_total$/ && $known{$1}               # a metric
			|| $name =~ /^(.*)_wire$/ && $known{$1};               # WIRE_MESSAGE makes it
	};
	for my $path (sort keys %prose) {
		while ($prose{$path} =~ m{(?<![\w/.%<\$-])([A-Za-z]\w*)(\*|\(\))?}g) {
			my ($name, $end) = ($1, $2 || '');
			next unless $name =~ /\w_\w/ || $end eq '()';
			next if $end eq '*' && grep { /^\Q$name\E/ } keys %known;
			push @bad, "$path: $name" unless $exists->($name);
		}
		while ($prose{$path} =~ m{(?<![\w/.])((?:engine|fs|master|t|doc|man|tools)/[\w/-]*[\w-](?:\.[ch]|\.sh|\.t|\.py)?)(?![\w*])}g) {
			my $name = $1;
			my ($last) = $name =~ m{(\w+)(?:\.\w+)?$};
			next if $name =~ /NN|NAME/ || $name !~ /\.[a-z]+$/ && $known{ $last || '' }; # several; a program
			push @bad, "$path: $name" unless grep { index($_, $name) == 0 } keys %files;
		}
	}
	return @bad;
}

my %files;
my @tops = grep { -e "$src/$_" } qw(engine fs master t doc man tools python etc debian completion
	README HACKING configure.ac Makefile.am autogen.sh quickstart quickcheck);
for my $path (map { chomp; substr($_, length($src) + 1) } `find @{[map { "'$src/$_'" } @tops]} -type f`) {
	next if $path =~ m{~$|\.(?:o|lo|gz|png|orig|rej|swp|pyc)$|(?:^|/)\.};
	open(my $in, '<:raw', "$src/$path") or die "$path: $!";
	local $/;
	$files{$path} = <$in>;
}
my @bad = missing(%files);
print((@bad || keys %files < 100 ? 'not ok' : 'ok') . " 1 - each name in a comment or document exists\n");
print "# $_\n" for @bad;

my @missed;
for my $wrong (['fs/x.c', "/* Calls no_such_call. */\n"], ['fs/x.c', "/* Calls nothing(). */\n"], ['doc/x', "see engine/no/where.c\n"],
	['t/x.sh', "# as no_such_call does\n"]) {
	push @missed, $wrong->[1] unless missing('fs/y.c' => "int such_call(void);\n", @$wrong) == 1;
}
push @missed, 'a name that exists' if missing('fs/y.c' => "int such_call(void);\n", 'doc/x' => "such_call() of fs/y.c, such_*\n");
print((@missed ? 'not ok' : 'ok') . " 2 - a name that does not exist is found\n");
print "# missed: $_" for @missed;
print "1..2\n";
