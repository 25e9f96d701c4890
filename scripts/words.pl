#!/usr/bin/env perl
# SPDX-License-Identifier: Apache-2.0
#
# Checks sources, scripts and pages for the words that docs/words.md does not allow, and pages for long lines and
# long sentences.
#
#     scripts/words.pl            every file
#     scripts/words.pl FILE...    these files

use strict;
use warnings;
use File::Basename qw(dirname);
use File::Find qw(find);

chdir dirname($0) . '/..' or die "cannot change to the repository: $!";

my $line_max = 120;    # of a page
my $row_max = 160;     # of a table's row
my $words_max = 25;    # of a page's sentence

# Words as prose and as parts of names: told, is_told, Told, TOLD.
sub word {
    my ($word) = @_;
    my $capital = ucfirst $word;
    my $upper = uc $word;
    return "(?:(?<![A-Za-z])$word|$capital)(?![a-z])|(?<![A-Za-z])$upper(?![A-Za-z])";
}

# What is searched, and what plain English uses instead. Names of files, and code in pages, are not searched.
my @phrases = (
    [ join('|', map { word($_) } qw(told tells say says said)), 'notify, signal, report, ACK, state' ],
    [ word('tell') . '(?! apart)', 'notify, signal, report' ],
    [ join('|', map { word($_) } qw(hear hears heard)), 'receive, seen' ],
    [ join('|', map { word($_) } qw(met meeting greet)), 'adopt, adopting' ],
    [ join('|', map { word($_) } qw(grid sentinel waking)), 'the mechanism by its name' ],
    [ join('|', map { word($_) } qw(nobody somebody whoever)), 'the actor by its name' ],
    [ '(?<!bit )(?<!byte )(?<!the )(?<!\/)(?:' . word('words') . ')', 'notifications, fields, messages' ],
    [ '(?i:\b(?:asks|asked)\b)(?! (?:for|to)\b)|(?:_asked|asked_)', 'probe, probed, request, query' ],
    [ '(?<!\.)(?<!ringbuf_)(?<!try_)(?:' . word('reserve') . ')', 'withheld segment' ],
    [ '(?i:\bin place of\b)', 'instead of' ],
    [ '(?<!in )(?<!In )(?<!in_)(?<!In)(?<!in-)(?<!take )(?<!takes )(?<!took )(?:' . word('places?') . ')', 'index, slot, FlowId, MobileId' ],
    [ '(?i:\bso (?:long|many)\b)', 'a duration, a count' ],
    [ '(?i:\bof (?:which|whom)\b)', 'a second sentence' ],
    [ '(?i:\b(?:sent|send|sends|sending) (?:again|once more)\b)', 'retransmit' ],
    [ '(?i:\b(?:held|hold|holds|holding|kept|keep|keeps) back\b)', 'withhold an ACK, queue a segment' ],
    [ '(?i:\blets? go\b|(?:held|hold|kept|keep)_back|let_go)', 'release, queue, withhold' ],
    [ '(?i:\b(?:link|radio|cell|interface|carrier) (?:still |no longer |again )?carries\b)|\bcarries (?:again|nothing)\b|\bCarries\b|\bcarries[:,)]|\.carries\b', 'the link is up' ],
    [ '(?i:\b(?:is|are|was|were|comes?|came) back\b)', 'the link is up again' ],
    [ '(?i:\b(?:has|have|had|is) gone\b)', 'the link is down' ],
    [ '(?i:\bways? (?:in|out)\b)(?! which)|\bWays?\b', 'ingress, egress, direction' ],
);
$_->[0] = qr/$_->[0]/ for @phrases;

# Most lines have none of these strings, and no further pattern is tried on them.
my $suspicious = qr/told|tell|say|said|hear|met|meeting|greet|grid|sentinel|waking|nobody|somebody|whoever|word|ask
    |reserve|place|so\ long|so\ many|of\ wh|again|once\ more|back|lets?[ _]go|carr|gone|way/xi;

# Names of variables; searched in code without comments and strings.
my @names = ( [ qr'(?:\blet (?:mut )?|\bfor |[|(,&*]\s*|\bmut )(?:of|its)\s*(?:[:=,|)]|in\b)|\b(?:of|its)\.[a-z]|^\s*(?:pub(?:\([a-z]+\))? )?(?:of|its)[:,]', 'a noun' ] );

sub code_of {
    my ($line) = @_;
    $line =~ s/"(?:[^"\\]|\\.)*"/""/g;
    $line =~ s{//.*}{};
    $line =~ s{^\s*\*.*|/\*.*}{};
    return $line;
}

sub is_page { return $_[0] =~ /\.md$/ }

# The prose of a page in blocks: the first line's number, and the text. Code, tables and headings are no prose.
sub blocks {
    my ($fenced, $open, @blocks) = (0, 0);
    for my $index (0 .. $#_) {
        my $line = $_[$index];
        $fenced = !$fenced if $line =~ /^\s*```/;
        my $is_prose = !$fenced && $line !~ /^\s*(?:$|```|\||#+ )/ && ($open || $line !~ /^ {4}/);
        my $is_item = $line =~ s/^\s*(?:[-*]|\d+\.) //;
        push @blocks, [ $index + 1, '' ] if $is_prose && ($is_item || !$open);
        $blocks[-1][1] .= "$line\n" if $is_prose;
        $open = $is_prose;
    }
    return @blocks;
}

# Inline code is one word, a link is its text. Newlines stay, for the lines' numbers.
sub as_read {
    my ($text) = @_;
    $text =~ s/<!--.*?-->|\]\([^)]*\)/$& =~ tr{\n}{}cdr/gse;
    return $text =~ s/`[^`]*`/'`' . $& =~ tr{\n}{}cdr/ger;
}

my $sentence_end = qr/(?<!\.)(?<!e\.g)(?<!i\.e)[.?!][)"'*\]]*(?=\s)/;

sub long_sentences {
    my ($file, @lines) = @_;
    my @found;
    for (blocks(@lines)) {
        my ($number, $text) = @$_;
        for my $sentence (split $sentence_end, as_read($text)) {
            my $words = grep { /[\w`]/ } split ' ', $sentence;
            my ($blank) = $sentence =~ /^(\s*)/;
            my $first = $number + $blank =~ tr/\n//;
            push @found, "$file:$first: a sentence of $words words; the limit is $words_max" if $words > $words_max;
            $number += $sentence =~ tr/\n//;
        }
    }
    return @found;
}

sub findings {
    my ($file) = @_;
    open my $in, '<', $file or die "$file: $!\n";
    my ($number, $fenced, @lines, @found) = (0, 0);
    while (my $line = <$in>) {
        $number++;
        chomp $line;
        push @lines, $line;
        $fenced = !$fenced if $line =~ /^\s*```/;
        my $prose = $line =~ s{[\w./*-]+\.(?:rs|md|toml|[ch]|sh|pl|txt)\b}{}gr;
        $prose =~ s/`[^`]*`|^ {4}.*//g if is_page($file);
        for my $phrase ($prose =~ $suspicious ? @phrases : ()) {
            my ($pattern, $use) = @$phrase;
            push @found, "$file:$number: '$&': use $use" if $prose =~ /$pattern/;
        }
        if ($file =~ /\.(?:rs|c|h)$/ && $line =~ /\b(?:of|its)\b/) {
            my $code = code_of($line);
            for my $name (@names) {
                my ($pattern, $use) = @$name;
                push @found, "$file:$number: '$&': use $use" if $code =~ /$pattern/;
            }
        }
        if (is_page($file) && !$fenced) {
            utf8::decode(my $text = $line);
            my $max = $text =~ /^\|/ ? $row_max : $line_max;
            push @found, "$file:$number: " . length($text) . " characters; the limit is $max" if length $text > $max;
        }
    }
    push @found, long_sentences($file, @lines) if is_page($file);
    return @found;
}

sub files {
    my @files = grep { -f } glob '*.md';
    find(
        {
            no_chdir => 1,
            wanted => sub {
                $File::Find::prune = 1 if -d && m{/target$};
                push @files, $_ if -f && /\.(?:rs|c|h|sh|md|service)$/;
            },
        },
        grep { -d } qw(crates bpf scripts .ci docs dist papers)
    );
    push @files, glob 'etc/*.toml';
    # The page that lists these words.
    return sort grep { $_ ne 'docs/words.md' } @files;
}

my @found = map { findings($_) } @ARGV ? @ARGV : files();
print "$_\n" for @found;
exit(@found ? 1 : 0);
