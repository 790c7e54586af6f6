#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Every source file keeps the rules of the source tree: the directories that
# it may include, private headers, printing, file I/O, locks, length, layout,
# licence, at most 26 .c files a directory, private headers of at most 250 lines,
# a server and a master of at most 25 members, and no call cycle among the files
# of a directory (read from the objects in BUILD).  At the end each rule is
# run over a small tree that breaks it once, which proves that the rule can
# fail.
use strict;
use warnings;
use File::Find;
use File::Temp qw(tempdir);
use File::Path qw(make_path);

# The engine's directories, lowest first: each may include the headers of those before it.
my @components = qw(base probe daemon sstable cell log tablet compact schema meta script lock rpc client server);
my %level = map { $components[$_] => $_ } 0 .. $#components;
# The rooms of a directory, in the same order: each may call those before it.  The files of the directory itself may
# call all; `own' stands for its headers, which the rooms after it may include.
my %rooms = (
	'engine/server' => [qw(own tables storage tablets requests)],
	fs => [qw(base file node stream request http)],
);
my %master_may = map { $_ => 1 } qw(base lock rpc schema meta client);
# The headers that a file of pure functions may include: no directory that does I/O or takes locks.
my %pure = map { $_ => 1 } qw(engine/base/name.c engine/base/name.h master/balance.c master/balance.h);
my %pure_may = map { $_ => 1 } qw(engine/base/name.h master/balance.h engine/base/bytes.h engine/tabletfs.h);
# Directories whose files still call each other in a cycle.  No directory is added here.  Remove yours as soon as
# `make check TESTS_ONLY=../t/00-layering.t` does not print its cycles any more; "prove -v" names entries that are
# not needed.
my @cycles_allowed = ();
# Directories that still have more than $most_files .c files: remove yours here, too.
my @crowds_allowed = ();
# Errnos that no part may return to another: engine/base/outcome.h has names for their meanings.  Files on a network
# return them (engine/base/file.h), the kernel to fs, and ESTALE is also the error of a user's stream and feed.
my $borrowed = 'EREMCHG|EIDRM|ESHUTDOWN|EOWNERDEAD|ECONNRESET|EALREADY';
my $borrowed_of_kernel = 'ECONNABORTED|ENOTCONN|ESTALE';
my $most_files = 26; # .c files in a directory of the product
my $longest = 800;        # lines, of a source file
my $longest_public = 1000; # of engine/tabletfs.h, which is a contract and has no code
my $longest_private = 250; # of a private header: FILE_internal.h, internal.h, or in a room
# Structs that are made of parts, and the most members that they may have.
my %made_of_parts = ('engine/server/internal.h' => 'server', 'master/internal.h' => 'master');
my $most_members = 25;
my $longest_test = 1100;  # of a test: rows of cases

sub component {
	my ($path) = @_;
	return $1 if $path =~ m{^engine/([^/]+)/};
	return 'tool' if $path eq 'master/main.c';
	return 'open' if $path =~ m{^engine/(?:open|serve|join|host|peers|self|labelled|tellers|site|site_probe|cluster|lead|init)\.[ch]$};
	return 'tabletfs.h' if $path eq 'engine/tabletfs.h';
	return 'model' if $path =~ m{^t/model/};
	return $1 if $path =~ m{^(fs|master|sql|t|man|tools)/};
	return 'top';
}

sub is_private {
	my ($path) = @_;
	return $path =~ m{(?:^|/)internal\.h$|_internal\.h$|_impl\.h$|^engine/server/[^/]+/};
}

# The position of a file among the rooms of $dir.
sub height {
	my ($dir, $path) = @_;
	my @names = @{ $rooms{$dir} };
	my $room = $path =~ m{^\Q$dir\E/([^/]+)/} ? $1 : $path =~ /\.h$/ && $names[0] eq 'own' ? 'own' : return scalar @names;
	return (grep { $names[$_] eq $room } 0 .. $#names)[0];
}

# Returns undef if the rooms of a directory permit that a file uses another one, the reason otherwise.
sub room_arrow {
	my ($from, $to) = @_;
	for my $dir (grep { $from =~ m{^\Q$_\E/} && $to =~ m{^\Q$_\E/} } keys %rooms) {
		my ($f, $t) = (height($dir, $from), height($dir, $to));
		return "$dir has no such room" unless defined $f && defined $t;
		return "this room of $dir comes later" if $t > $f;
	}
	return;
}

# The number of members of a struct in a header without comments.
sub members_of {
	my ($struct, $s) = @_;
	$s =~ /^struct \Q$struct\E \{\n(.*?)^\}/ms or return 0;
	my $body = $1;
	1 while $body =~ s/\{[^{}]*\}|\([^()]*\)//gs;
	return eval { my $n = 0; $n += 1 + tr/,// for grep { /\w/ } split(/;/, $body); $n };
}

# Returns undef if `from` may include `to`, the reason otherwise.
sub arrow {
	my ($from, $to) = @_;
	my ($f, $t) = (component($from), component($to));
	return "a pure file includes $to" if $pure{$from} && !$pure_may{$to};
	if (is_private($to) && $f ne $t && $f ne 't') {
		return "$to is private to its component";
	}
	my $why = room_arrow($from, $to);
	return $why if $why;
	return if $t eq 'tabletfs.h' || $f eq $t || $f eq 't' || $f eq 'open' || $f eq 'tool';
	return if $from =~ m{(?:^|/)main\.c$} && $f ne 'fs';
	if ($f eq 'bulk') {
		return if $t eq 'base';
		return "bulk may include tabletfs.h and engine/base only";
	}
	if ($f eq 'sql') {
		return "sql may include tabletfs.h only";
	}
	if ($f eq 'model') {
		return "the model shares nothing with the engine but tabletfs.h";
	}
	if ($f eq 'fs') {
		return if $t eq 'base' || $t eq 'daemon' || $t eq 'bulk';
		return "fs may include tabletfs.h, engine/base, engine/daemon and engine/bulk only";
	}
	if ($f eq 'master') {
		return if $master_may{$t};
		return "master may not call $t";
	}
	return "$to is shared by tablet and compact only" if $to eq 'engine/tablet/tablet_state.h' && $f !~ /^(?:tablet|compact)$/;
	if (exists $level{$f}) {
		return if exists $level{$t} && $level{$t} < $level{$f};
		return "$f may not call $t";
	}
	return "no rule for $f -> $t";
}

sub without_comments_and_strings {
	my ($s) = @_;
	$s =~ s{/\*.*?\*/}{ my $c = $&; $c =~ s/[^\n]//g; $c }gse;
	$s =~ s{//[^\n]*}{}g;
	$s =~ s{"(?:\\.|[^"\\\n])*"}{""}g;
	return $s;
}

sub check_tree {
	my ($src) = @_;
	my (%bad, @files, %c_files, %owner, %code);
	my $count = 0;

	for my $top (qw(engine fs master sql t tools man etc python)) {
		next unless -d "$src/$top";
		find({ no_chdir => 1, wanted => sub { push @files, substr($_, length($src) + 1) if -f $_ } }, "$src/$top");
	}
	for my $path (sort @files) {
		next if $path =~ /~$|\.(?:orig|rej|swp|o|lo)$|\.dirstamp$|^python\/(?:build|\.pybuild)\//;
		my $code = $path =~ /\.(?:c|h|cc)$/;
		my $text = $code || $path =~ /\.(?:mk|t|sh|proto|pl|am|py|pyi|toml|[1-8])$/ || $path =~ m{^t/lib/|^tools/};
		next unless $text;
		open(my $in, '<:raw', "$src/$path") or die "$path: $!";
		local $/;
		my $s = <$in>;
		close($in);
		$count++;
		push @{ $bad{licence} }, "$path: no SPDX line near its top"
			unless substr($s, 0, 400) =~ /SPDX-License-Identifier: Apache-2\.0/;
		next unless $code;
		$code{$path} = without_comments_and_strings($s) if $path =~ m{^engine/server/};
		$c_files{$1}++ if $path =~ m{^((?:engine|fs|master|sql)(?:/.*)?)/[^/]*\.c$};
		my $lines = ($s =~ tr/\n//);
		my $most = $path =~ m{^t/} ? $longest_test : $path eq "engine/tabletfs.h" ? $longest_public : $longest;
		$most = $longest_private if $path =~ m{^(?:engine|fs|master|sql)/.*\.h$} && is_private($path);
		push @{ $bad{length} }, "$path: $lines lines, at most $most" if $lines > $most;
		if (my $struct = $made_of_parts{$path}) {
			my $members = members_of($struct, without_comments_and_strings($s));
			push @{ $bad{members} }, "$path: struct $struct has $members members, at most $most_members" if $members > $most_members;
		}
		while ($path =~ m{^(?:engine|fs|master|sql)/.*\.h$} && $s =~ /^extern (?!"C"|const (?![^;]*\*(?!const))|struct fs fs;)(.*)/mg) {
			push @{ $bad{variables} }, "$path: $1 is a variable that another file may set";
		}
		while ($s =~ /^[ \t]*#[ \t]*include[ \t]+"([^"]+)"/mg) {
			my $to = $1;
			next if $to eq 'config.h';
			if ($to !~ m{/}) {
				push @{ $bad{root} }, "$path: \"$to\" is not relative to the root";
				next;
			}
			push @{ $bad{root} }, "$path: there is no $to" unless -e "$src/$to" || $to =~ /\.pb-c\.h$/;
			my $why = arrow($path, $to);
			push @{ $bad{arrows} }, "$path -> $to: $why" if $why;
		}
		push @{ $bad{hashes} }, "$path: $1"
			if $path =~ m{^(?:engine|fs|master|sql)/} && $path !~ m{^engine/base/hash(?:table)?\.[ch]$} && $s =~ /^[ \t]*#[ \t]*include[ \t]+(<uthash\.h>|<sys\/random\.h>)/m;
		if ($path =~ m{^(?:engine|fs|master|sql)/} && $path !~ m{^engine/(?:base/(?:outcome\.h|file\.[ch])|probe/(?:probe|side)\.c|tabletfs\.h)$}) {
			my $not = $path =~ m{^(?:engine/(?:bulk|tool)|fs)/} ? $borrowed : "$borrowed|$borrowed_of_kernel";
			push @{ $bad{outcomes} }, "$path: $1" while $s =~ /\b($not)\b/g;
		}
		my $component = component($path);
		next if $component eq 't' || $component eq 'model' || $component eq 'base' || $component eq 'tool' || $path =~ m{/main\.c$|^fs/options\.c$};
		my $plain = without_comments_and_strings($s);
		my $n = 0;
		for my $line (split /\n/, $plain) {
			$n++;
			push @{ $bad{prints} }, "$path:$n: prints by $1"
				if $line =~ /(?<![A-Za-z0-9_])(printf|fprintf|vprintf|vfprintf|puts|fputs|putchar|perror|dprintf|syslog)\s*\(/;
			# options.c reads the user's configuration, by libconfig from a stream: no part of a store.
			push @{ $bad{files} }, "$path:$n: $1 passes by engine/base/file.h"
				if $component ne 'fs' && $path ne 'engine/client/options.c' && $line =~ /(?<![A-Za-z0-9_.>])(open|openat|fopen|rename|unlink|fsync|fdatasync|pwrite|pwritev|ftruncate|fallocate|mkdir|rmdir)\s*\(/;
			push @{ $bad{locks} }, "$path:$n: $1 passes by engine/base/mutex.h"
				if $line =~ /\b(pthread_mutex_\w+|pthread_rwlock_\w+|pthread_cond_\w+)\s*\(/ && $component ne 'fs';
		}
	}
	for my $path (keys %code) {
		my ($part) = $code{$path} =~ /^const struct server_part (\w+)_part = /m or next;
		$owner{$part} = $path =~ s{\.c$}{}r;
	}
	for my $path (sort keys %code) {
		my $file = $path =~ s{\.[ch]$}{}r;
		for my $member ($code{$path} =~ /->(\w+->\w+)/g) {
			my ($part) = $member =~ /^(\w+)/;
			next if ($owner{$part} // $file) eq $file || $code{$path} =~ /^struct $part \{/m;
			push @{ $bad{parts} }, "$path: reads $member, a member of $owner{$part}.c";
		}
	}
	my %crowd = map { $_ => 1 } @crowds_allowed;
	for my $dir (grep { $c_files{$_} > $most_files && !$crowd{$_} } sort keys %c_files) {
		push @{ $bad{crowd} }, "$dir: $c_files{$dir} .c files, at most $most_files";
	}
	$bad{none} = ["no source file found below $src"] unless $count;
	return \%bad;
}

# The newest object of each .c file below the directories @$tops: a program's name may be part of
# the object's, and an old build directory may have objects of files that were moved or removed.
sub objects_of {
	my ($src, $build, $tops) = @_;
	my %object;
	for my $top (grep { -d "$build/$_" } @$tops) {
		find({ no_chdir => 1, wanted => sub {
			my ($dir, $name) = m{^(.*?)/(?:[^/]*-)?([A-Za-z0-9_]+)\.o$} or return;
			my $c = substr("$dir/$name.c", length($build) + 1);
			return unless -e "$src/$c";
			$object{$c} = $_ if !$object{$c} || (stat $_)[9] > (stat $object{$c})[9];
		} }, "$build/$top");
	}
	return \%object;
}

# The call cycles in each directory: { directory => [a line per file and the file that it calls] }.  A reference to
# another file's variable counts as a call: a table of functions is one.
sub cycles_in {
	my ($src, $build, @tops) = @_;
	my $object = objects_of($src, $build, \@tops);
	my (%home, %needs, %edge, %found);
	my %source = reverse %$object;
	my @objects = sort keys %source;
	return { cycles => {}, objects => 0 } unless @objects;
	open(my $nm, '-|', 'nm', '-P', '-A', @objects) or die "nm: $!";
	while (<$nm>) {
		my ($file, $symbol, $kind) = /^(.*?): (\S+) (\S)/ or next;
		my $c = $source{$file};
		(my $dir = $c) =~ s{/[^/]*$}{};
		$home{$dir}{$symbol} = $c if $kind =~ /^[TDBRVW]$/;
		$needs{$dir}{$c}{$symbol} = 1 if $kind eq 'U';
	}
	close($nm);
	for my $dir (keys %needs) {
		for my $c (keys %{ $needs{$dir} }) {
			for my $symbol (sort keys %{ $needs{$dir}{$c} }) {
				my $to = $home{$dir}{$symbol};
				push @{ $edge{$c}{$to} }, $symbol if $to && $to ne $c;
			}
		}
	}
	my %reach;
	for my $c (keys %$object) {
		my @todo = keys %{ $edge{$c} || {} };
		while (defined(my $next = shift @todo)) {
			push @todo, keys %{ $edge{$next} || {} } unless $reach{$c}{$next}++;
		}
	}
	for my $c (sort keys %edge) {
		for my $to (sort keys %{ $edge{$c} }) {
			next unless $reach{$to}{$c};
			my ($dir, $from, $callee) = ($c =~ m{^(.*)/}, map { m{([^/]*)\.c$} } $c, $to);
			push @{ $found{$dir} }, "$dir: $from -> $callee (@{ $edge{$c}{$to} })";
		}
	}
	return { cycles => \%found, objects => scalar keys %$object };
}

# The calls from a room to a later one, or to the files of the directory itself.  The includes do not show a function
# that a header of an earlier room declares.
sub upward_calls {
	my ($src, $build) = @_;
	my %source = reverse %{ objects_of($src, $build, [keys %rooms]) };
	my @objects = sort keys %source or return;
	my (%home, @needs);
	open(my $nm, '-|', 'nm', '-P', '-A', @objects) or die "nm: $!";
	while (<$nm>) {
		my ($file, $symbol, $kind) = /^(.*?): (\S+) (\S)/ or next;
		$home{$symbol} = $source{$file} if $kind =~ /^[TDBRVW]$/;
		push @needs, [$source{$file}, $symbol] if $kind eq 'U';
	}
	close($nm);
	return map { "$_->[0] calls $_->[1] of $home{$_->[1]}" } grep { $home{$_->[1]} && room_arrow($_->[0], $home{$_->[1]}) } @needs;
}

# External names that fs and the engine both define.  In a program that links both statically, the linker would take
# either.  Each has a main, which no library has.
sub defined_twice {
	my ($src, $build) = @_;
	my %home;
	for my $side (['fs'], ['engine', 'master']) {
		my %source = reverse %{ objects_of($src, $build, $side) };
		my @objects = sort keys %source or next;
		open(my $nm, '-|', 'nm', '-P', '-A', @objects) or die "nm: $!";
		/^(.*?): (\S+) [TDBRC]/ and $home{$2}{ $side->[0] } = $source{$1} while <$nm>;
		close($nm);
	}
	return map { "$_: $home{$_}{fs} and $home{$_}{engine}" } grep { $_ ne 'main' && keys %{ $home{$_} } == 2 } sort keys %home;
}

my %title = (
	arrows => 'every include follows a permitted direction',
	crowd => "at most $most_files .c files in a directory",
	root => 'includes are relative to the root, and exist',
	licence => 'an SPDX line in each file',
	length => "no file is too long",
	members => "struct server and struct master have at most $most_members members",
	prints => 'nothing prints but engine/base, the tools and the mains',
	files => 'the engine reaches files through engine/base/file.h',
	hashes => 'tables have a hash that users cannot choose (engine/base/hashtable.h), random bytes come from engine/base/hash.c',
	outcomes => 'outcomes have the names of engine/base/outcome.h, no errno',
	locks => 'the engine locks through engine/base/mutex.h',
	none => 'there are sources',
	parts => 'a part of the server reads the members of no other part',
	variables => 'no header of the product shows a variable, only constants',
);
my $src = $ENV{SRC} || '.';
my $n = 0;
my $bad = check_tree($src);
for my $rule (sort keys %title) {
	$n++;
	print(($bad->{$rule} ? 'not ok' : 'ok') . " $n - $title{$rule}\n");
	print "# $_\n" for @{ $bad->{$rule} || [] };
}

# No call cycles among the files of a directory.
my $calls = cycles_in($src, $ENV{BUILD} || '.', qw(engine fs master sql));
my %cycle = %{ $calls->{cycles} };
my @new_cycles = grep { my $dir = $_; !grep { $_ eq $dir } @cycles_allowed } sort keys %cycle;
$n++;
print((@new_cycles || !$calls->{objects} ? 'not ok' : 'ok') . " $n - no call cycle among the files of a directory\n");
print "# there is no object in BUILD\n" unless $calls->{objects};
print "# $_\n" for map { @{ $cycle{$_} } } @new_cycles;
print "# $_ has no cycle: remove it from \@cycles_allowed\n" for grep { !$cycle{$_} } @cycles_allowed;

my @upward = upward_calls($src, $ENV{BUILD} || '.');
$n++;
print((@upward ? 'not ok' : 'ok') . " $n - each room of a directory calls those before it only\n");
print "# $_\n" for @upward;

my @twice = defined_twice($src, $ENV{BUILD} || '.');
$n++;
print((@twice ? 'not ok' : 'ok') . " $n - fs and the engine define no name twice\n");
print "# $_\n" for @twice;

# Symbols of the tests' file layer, which no shipped program may have.
sub symbols_of {
	my ($path, $kinds) = @_;
	return map { /^(\w+) [$kinds] / ? $1 : () } `nm -P '$path' 2>/dev/null`;
}
sub test_symbols_in {
	my ($build, @programs) = @_;
	my %test = map { $_ => 1 } grep { $_ ne 'file_ops' } symbols_of("$build/t/lib/libfaults.a", 'TDBR');
	return ('no symbol in libfaults.a') unless %test;
	return map { my $p = $_; my @s = symbols_of("$build/$p", 'TtDdBbRr'); (@s ? () : "$p has no symbols"), map { "$p: $_" } grep { $test{$_} } @s } @programs;
}
my $build = $ENV{BUILD} || '.';
my @in_product = test_symbols_in($build, 'tabletfs', 'tabletctl', 'tabletfs-script', 'libtabletfs.so.0.0.0');
$n++;
print((@in_product ? 'not ok' : 'ok') . " $n - no shipped program has a test's symbol\n");
print "# $_\n" for @in_product;

# One C layout (.clang-format).  A package's build may lack clang-format; CI may not.
$n++;
if (system("clang-format --version >/dev/null 2>&1") != 0) {
	print(($ENV{CI} ? "not ok $n - clang-format is missing" : "ok $n - layout # SKIP clang-format is missing") . "\n");
} else {
	my @c;
	for my $top (qw(engine fs master t)) {
		find({ no_chdir => 1, wanted => sub { push @c, $_ if /\.[ch]$/ && !/\.pb-c\.[ch]$/ } }, "$src/$top");
	}
	my @off = map { /^(\S+?):/ ? $1 : () } `clang-format --style=file:$src/.clang-format --dry-run @c 2>&1`;
	my %off = map { $_ => 1 } @off;
	print((@off || !@c ? 'not ok' : 'ok') . " $n - every C file has the layout of .clang-format\n");
	print "# $_: run clang-format -i\n" for sort keys %off;
}

# Each rule, broken once.
my $spdx = "/* SPDX-License-Identifier: Apache-2.0 */\n";
my @wrong = (
	['arrows', 'engine/base/x.c', "$spdx#include \"engine/tablet/y.h\"\n", 'engine/tablet/y.h'],
	['arrows', 'engine/client/x.c', "$spdx#include \"engine/server/server.h\"\n", 'engine/server/server.h'],
	['arrows', 'engine/bulk/x.c', "$spdx#include \"engine/client/y.h\"\n", 'engine/client/y.h'],
	['arrows', 'fs/x.c', "$spdx#include \"engine/tablet/y.h\"\n", 'engine/tablet/y.h'],
	['arrows', 'fs/node/x.c', "$spdx#include \"fs/stream/y.h\"\n", 'fs/stream/y.h'],
	['arrows', 'fs/base/x.c', "$spdx#include \"fs/y.h\"\n", 'fs/y.h'],
	['arrows', 'engine/base/name.c', "$spdx#include \"engine/base/file.h\"\n", 'engine/base/file.h'],
	['arrows', 't/model/x.c', "$spdx#include \"engine/base/bytes.h\"\n", 'engine/base/bytes.h'],
	['arrows', 'sql/x.c', "$spdx#include \"engine/base/bytes.h\"\n", 'engine/base/bytes.h'],
	['arrows', 'master/x.c', "$spdx#include \"engine/tablet/y.h\"\n", 'engine/tablet/y.h'],
	['arrows', 'engine/server/x.c', "$spdx#include \"engine/client/internal.h\"\n", 'engine/client/internal.h'],
	['root', 'engine/tablet/x.c', "$spdx#include \"y.h\"\n"],
	['root', 'engine/tablet/x.c', "$spdx#include \"engine/base/nowhere.h\"\n"],
	['licence', 'engine/tablet/x.c', "int x;\n"],
	['arrows', 'engine/server/tables/x.c', "$spdx#include \"engine/server/tablets/y.h\"\n", 'engine/server/tablets/y.h'],
	['arrows', 'engine/server/internal.h', "$spdx#include \"engine/server/tables/y.h\"\n", 'engine/server/tables/y.h'],
	['arrows', 'engine/open.c', "$spdx#include \"engine/server/tables/y.h\"\n", 'engine/server/tables/y.h'],
	['length', 'engine/tablet/x.c', $spdx . ("\n" x 900)],
	['parts', 'engine/server/tables/x.c', "${spdx}int f(struct server *s)\n{\n\treturn s->y->n;\n}\n",
		['engine/server/tables/y.c', "${spdx}const struct server_part y_part = {0};\n"]],
	['length', 'engine/server/tables/x.h', $spdx . ("\n" x 251)],
	['members', 'engine/server/internal.h', "${spdx}struct server {\n" . ("\tint a, b;\n" x 13) . "};\n"],
	['crowd', 'engine/tablet/x.c', $spdx, map { "engine/tablet/x$_.c" } 1 .. 26],
	['variables', 'engine/tablet/x.h', "${spdx}extern unsigned x_for_tests;\n"],
	['prints', 'engine/tablet/x.c', "${spdx}void f(void)\n{\n\tprintf(\"x\");\n}\n"],
	['files', 'engine/tablet/x.c', "${spdx}int f(void)\n{\n\treturn unlink(\"x\");\n}\n"],
	['hashes', 'fs/base/x.c', "$spdx#include <uthash.h>\n"],
	['hashes', 'engine/tablet/x.c', "$spdx#include <sys/random.h>\n"],
	['outcomes', 'engine/client/x.c', "${spdx}int f(void)\n{\n\treturn -EREMCHG;\n}\n"],
	['outcomes', 'master/x.c', "${spdx}int f(int err)\n{\n\treturn err == -ESTALE;\n}\n"],
	['locks', 'engine/tablet/x.c', "${spdx}void f(void)\n{\n\tpthread_mutex_lock(0);\n}\n"],
);
sub write_files {
	my ($tree, %text) = @_;
	for my $path (keys %text) {
		(my $dir = "$tree/$path") =~ s{/[^/]+$}{};
		make_path($dir);
		open(my $out, '>', "$tree/$path") or die "$path: $!";
		print $out $text{$path};
		close($out);
	}
}
my @missed;
for my $w (@wrong) {
	my ($rule, $path, $text, @others) = @$w;
	my $tree = tempdir(CLEANUP => 1);
	write_files($tree, $path => $text, map { ref $_ ? @$_ : ($_ => $spdx) } @others);
	my $found = check_tree($tree);
	push @missed, "$rule in $path" unless $found->{$rule};
	push @missed, "$rule in $path: also " . join(' ', keys %$found) if keys %$found > 1;
}
# Three files that call each other in a circle, and one that is in a circle with a removed file whose object is
# still there.
my $round = tempdir(CLEANUP => 1);
my %circle = map { ("fs/$_->[0].c", "int $_->[0](void);\nint $_->[1](void);\nint $_->[0](void)\n{\n\treturn $_->[1]();\n}\n") }
	(['a', 'b'], ['b', 'c'], ['c', 'a'], ['d', 'gone'], ['gone', 'd']);
write_files($round, %circle);
for my $file (qw(a b c d gone)) {
	my $object = $file eq 'c' ? 'fs/prog-c.o' : "fs/$file.o";
	system(($ENV{CC} || 'cc') . " -c -o '$round/$object' '$round/fs/$file.c'") == 0 or push @missed, "$file.c does not compile";
}
unlink("$round/fs/gone.c");
my $in_circle = cycles_in($round, $round, 'fs')->{cycles};
my $wanted_circle = 'fs: a -> b (b);fs: b -> c (c);fs: c -> a (a)';
push @missed, 'cycle: ' . join(';', map { @$_ } values %$in_circle) if join(';', map { @$_ } values %$in_circle) ne $wanted_circle;
write_files($round, 'fs/c.c' => "int c(void);\nint c(void)\n{\n\treturn 0;\n}\n");
system(($ENV{CC} || 'cc') . " -c -o '$round/fs/prog-c.o' '$round/fs/c.c'");
push @missed, 'cycle: found one where there is none' if %{ cycles_in($round, $round, 'fs')->{cycles} };
write_files($round, 'fs/b.c' => "int twice(void);\nint twice(void)\n{\n\treturn 0;\n}\n", 'engine/e.c' => "int twice(void);\nint twice(void)\n{\n\treturn 0;\n}\n");
system(($ENV{CC} || 'cc') . " -c -o '$round/$_.o' '$round/$_.c'") == 0 or push @missed, "$_.c does not compile" for 'fs/b', 'engine/e';
push @missed, 'a name that fs and the engine define' if join(';', defined_twice($round, $round)) ne 'twice: fs/b.c and engine/e.c';
my $rooms = tempdir(CLEANUP => 1);
write_files($rooms, 'fs/node/up.c' => "int above(void);\nint up(void);\nint up(void)\n{\n\treturn above();\n}\n",
	'fs/stream/above.c' => "int above(void);\nint above(void)\n{\n\treturn 0;\n}\n");
system(($ENV{CC} || 'cc') . " -c -o '$rooms/$_.o' '$rooms/$_.c'") == 0 or push @missed, "$_.c does not compile" for 'fs/node/up', 'fs/stream/above';
push @missed, 'a call of a later room' if join(';', upward_calls($rooms, $rooms)) ne 'fs/node/up.c calls above of fs/stream/above.c';
push @missed, "a program with a test's symbols" unless grep { /file_forget_start/ } test_symbols_in($build, 't/unit/test_forget');
$n++;
print((@missed ? 'not ok' : 'ok') . " $n - each rule finds the tree that breaks it\n");
print "# missed: $_\n" for @missed;
print "1..$n\n";
