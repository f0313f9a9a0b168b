package programs

import (
	"fmt"
	"slices"
	"strings"
)

// DefaultSafeBins are the safe bins if nothing is configured.
var DefaultSafeBins = []string{"cut", "uniq", "head", "tail", "tr", "wc"}

// SafeBinProfiles are the built-in profiles, of programs that can be safe bins without a
// configured profile. They read standard input alone. Names of files are refused, and
// options that name a file or a program, or that never end.
//
// A program's other long options are listed too, if an allowed one could be taken for an
// abbreviation of them.
var SafeBinProfiles = map[string]SafeBin{
	"cut": {
		ValueFlags: strings.Fields("-b --bytes -c --characters -d --delimiter -f --fields --output-delimiter"),
		Flags:      strings.Fields("-n -s --only-delimited -z --zero-terminated --complement"),
	},
	"uniq": {
		ValueFlags: strings.Fields("-f --skip-fields -s --skip-chars -w --check-chars --group= --all-repeated="),
		Flags:      strings.Fields("-c --count -d --repeated -D --all-repeated --group -i --ignore-case -u --unique -z --zero-terminated"),
	},
	"head": {
		ValueFlags: strings.Fields("-n --lines -c --bytes"),
		Flags:      strings.Fields("-NUM -q --quiet --silent -v --verbose -z --zero-terminated"),
	},
	"tail": {
		ValueFlags:  strings.Fields("-n --lines -c --bytes -s --sleep-interval --max-unchanged-stats --pid"),
		Flags:       strings.Fields("-NUM -q --quiet --silent -v --verbose -z --zero-terminated"),
		DeniedFlags: strings.Fields("-f -F --follow --retry"),
	},
	"tr": {
		MinPositional: 1, MaxPositional: 2,
		Flags: strings.Fields("-c -C --complement -d --delete -s --squeeze-repeats -t --truncate-set1"),
	},
	"wc": {
		ValueFlags:  strings.Fields("--total="),
		Flags:       strings.Fields("-c --bytes -m --chars -l --lines -L --max-line-length -w --words"),
		DeniedFlags: strings.Fields("--files0-from"),
	},
	"sort": {
		ValueFlags:  strings.Fields("-k --key -t --field-separator -S --buffer-size --parallel --batch-size --sort --check="),
		Flags:       strings.Fields("-b --ignore-leading-blanks -d --dictionary-order -f --ignore-case -g --general-numeric-sort -i --ignore-nonprinting -M --month-sort -h --human-numeric-sort -n --numeric-sort -R --random-sort -r --reverse -V --version-sort -c -C --check -m --merge -s --stable -u --unique -z --zero-terminated"),
		DeniedFlags: strings.Fields("-o --output -T --temporary-directory --compress-program --files0-from --random-source"),
	},
	"grep": {
		ValueFlags:  strings.Fields("-e --regexp -m --max-count -A --after-context -B --before-context -C --context -D --devices --binary-files --exclude --include --label --color= --colour="),
		Flags:       strings.Fields("-NUM -E --extended-regexp -F --fixed-strings -G --basic-regexp -P --perl-regexp -i --ignore-case --no-ignore-case -w --word-regexp -x --line-regexp -z --null-data -s --no-messages -v --invert-match -b --byte-offset -n --line-number --line-buffered -H --with-filename -h --no-filename -o --only-matching -q --quiet --silent -a --text -I -L --files-without-match -l --files-with-matches -c --count -T --initial-tab -Z --null --color --colour -U --binary"),
		DeniedFlags: strings.Fields("-f --file -r -R -d --recursive --directories --dereference-recursive --exclude-from --exclude-dir"),
	},
}

// Check reports why a use of the program is not safe: nil if it reads standard input,
// writes standard output, and does nothing else. A program that runs code is never safe.
//
// It looks only at the words. If it checked whether a file exists, its answer would tell
// that to callers who may not read the directory.
func (b SafeBin) Check(argv []Word) error {
	if len(argv) == 0 || !argv[0].Static {
		return fmt.Errorf("is not known by name")
	}
	if name := NormalizeName(argv[0].Text); IsInterpreter(name) {
		return fmt.Errorf("runs code: it can read and run anything")
	}
	g, err := b.grammar()
	if err != nil {
		return err
	}
	for _, w := range argv[1:] {
		if !w.Static {
			return fmt.Errorf("gets %s, whose value is not known", Quote(w.Text))
		}
		if err := plain(w.Text); err != nil {
			return err
		}
	}
	positional := 0
	ended := false
	for i := 1; i < len(argv); i++ {
		text := argv[i].Text
		switch {
		case text == "--" && !ended:
			ended = true
			continue
		case text == "-":
			positional = min(positional+1, max(positional, b.MaxPositional)) // standard input
			continue
		case ended || text == "" || text[0] != '-':
			positional++
			continue
		}
		opts, ok := g.word(text, i)
		if !ok {
			return fmt.Errorf("has an option that is not known to be safe: %s", Quote(text))
		}
		for _, o := range opts {
			if o.why != "" {
				return fmt.Errorf("has an option that is denied: %s", Quote(text))
			}
			if err := plain(o.value.Text); err != nil {
				return err
			}
			if o.last > i {
				if i++; i == len(argv) {
					return fmt.Errorf("has an option without its value: %s", Quote(text))
				}
			}
		}
	}
	switch {
	case positional < b.MinPositional:
		return fmt.Errorf("has %d arguments, and takes at least %d", positional, b.MinPositional)
	case positional > b.MaxPositional:
		return fmt.Errorf("has %d arguments that may be files, and takes %d", positional, b.MaxPositional)
	}
	return nil
}

// grammar is the grammar of a profile. Value flags end in "=" if the value has to be
// attached; -NUM is any number behind a dash. Denied flags come last, so that they win.
func (b SafeBin) grammar() (*grammar, error) {
	g := newGrammar("")
	for _, part := range []struct {
		flags []string
		takes string
		why   string
	}{{b.Flags, "", ""}, {b.ValueFlags, ":", ""}, {b.DeniedFlags, "", "denied"}} {
		for _, flag := range part.flags {
			takes := part.takes
			name := strings.TrimLeft(flag, "-")
			if flag == "-NUM" {
				name = "#"
			} else if bare, ok := strings.CutSuffix(name, "="); ok && takes != "" {
				name, takes = bare, "?"
			}
			if name == "" || name == flag || strings.ContainsAny(name, ",:? \t=") {
				return nil, fmt.Errorf("has a profile with a flag that is none: %s", Quote(flag))
			}
			if part.why != "" {
				takes = "?"
			}
			g.add(name+takes, part.why)
		}
	}
	return g, nil
}

// plain returns an error if a word, or the value of an option, could be a path or a
// pattern of paths.
func plain(text string) error {
	switch {
	case strings.HasPrefix(text, "/"), strings.HasPrefix(text, "./"), strings.HasPrefix(text, "../"), strings.HasPrefix(text, "~"),
		strings.HasPrefix(text, `\\`), text == ".", text == "..",
		len(text) > 2 && text[1] == ':' && (text[2] == '\\' || text[2] == '/'):
		return fmt.Errorf("gets %s, which may be a path", Quote(text))
	case strings.ContainsAny(text, "*?[]"):
		return fmt.Errorf("gets %s, which may be a pattern of paths", Quote(text))
	}
	return nil
}

// SafeBinNames normalizes configured names: lower case, without blanks and repetitions.
func SafeBinNames(entries []string) []string {
	var names []string
	for _, e := range entries {
		if name := strings.ToLower(strings.TrimSpace(e)); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
