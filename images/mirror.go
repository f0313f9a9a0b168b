package images

import (
	"cmp"
	"errors"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"
)

// A source is where apt of this machine gets packages: one archive and one
// suite of it.
type source struct {
	uri, suite string
	components []string
	signedBy   []string // files of keys, or the keys; empty: those that apt trusts for all
}

// others reports whether the archive is signed with other keys than Debian's: that of a
// vendor, who has packages for the same suite.
func (s source) others() bool {
	return len(s.signedBy) > 0 && !slices.ContainsFunc(s.signedBy, func(key string) bool { return strings.HasPrefix(path.Base(key), "debian") })
}

// aptSources reads apt's configuration, both formats of sources.list(5). It
// skips what it has no use for; apt itself is who complains about mistakes.
func aptSources(etc fs.FS) ([]source, error) {
	names, err := fs.Glob(etc, "sources.list.d/*")
	if err != nil {
		return nil, err
	}
	var all []source
	for _, name := range append([]string{"sources.list"}, names...) {
		parse := map[string]func(string) []source{".list": oneLineSources, ".sources": deb822Sources}[path.Ext(name)]
		if parse == nil {
			continue
		}
		text, err := fs.ReadFile(etc, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, parse(string(text))...)
	}
	return all, nil
}

// oneLineSources reads "deb [ option=value ] uri suite component…".
func oneLineSources(text string) []source {
	var all []source
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "deb")
		if !ok || strings.TrimLeft(rest, " \t") == rest { // deb-src, or nothing after it
			continue
		}
		rest = strings.TrimSpace(rest)
		var signedBy []string
		if options, found := strings.CutPrefix(rest, "["); found {
			if options, rest, ok = strings.Cut(options, "]"); !ok {
				continue
			}
			for _, o := range strings.Fields(options) {
				if keys, found := strings.CutPrefix(o, "signed-by="); found {
					signedBy = strings.Split(keys, ",")
				}
			}
		}
		if f := strings.Fields(rest); len(f) >= 3 {
			all = append(all, source{f[0], f[1], f[2:], signedBy})
		}
	}
	return all
}

// deb822Sources reads stanzas of "Key: value" with continuation lines.
func deb822Sources(text string) []source {
	var all []source
	stanza, key := map[string][]string{}, ""
	flush := func() {
		if slices.Contains(stanza["types"], "deb") && !slices.Equal(stanza["enabled"], []string{"no"}) {
			for _, uri := range stanza["uris"] {
				for _, suite := range stanza["suites"] {
					all = append(all, source{uri, suite, stanza["components"], stanza["signed-by"]})
				}
			}
		}
		stanza, key = map[string][]string{}, ""
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case strings.TrimSpace(line) == "":
			flush()
		case strings.HasPrefix(line, "#"):
		case line[0] == ' ' || line[0] == '\t':
			stanza[key] = append(stanza[key], strings.Fields(line)...)
		default:
			k, value, _ := strings.Cut(line, ":")
			key = strings.ToLower(strings.TrimSpace(k))
			stanza[key] = strings.Fields(value)
		}
	}
	flush()
	return all
}

// debianSources chooses where to get a suite of Debian: the lines of a
// sources.list. On a machine with that suite these are the machine's own; on one
// with another suite of Debian, its mirrors; and on any other machine they are
// empty, and mmdebstrap knows.
func debianSources(all []source, suite string) string {
	usable := slices.DeleteFunc(slices.Clone(all), func(s source) bool {
		u, err := url.Parse(s.uri)
		return err != nil || !slices.Contains([]string{"http", "https", "file"}, u.Scheme) || !slices.Contains(s.components, "main") || s.others()
	})
	var lines []string
	own := false
	for _, wanted := range []string{suite, suite + "-updates", suite + "-security"} {
		for _, s := range usable {
			line := "deb " + s.uri + " " + wanted + " main"
			if s.suite == wanted && !slices.Contains(lines, line) {
				lines = append(lines, line)
				own = own || wanted == suite
			}
		}
	}
	if own {
		return strings.Join(lines, "\n")
	}
	archive, security := "", ""
	for _, s := range usable {
		switch path.Base(s.uri) {
		case "debian":
			archive = cmp.Or(archive, s.uri)
		case "debian-security":
			security = cmp.Or(security, s.uri)
		}
	}
	if archive == "" {
		return ""
	}
	security = cmp.Or(security, strings.TrimSuffix(archive, "/")+"-security")
	return strings.Join([]string{
		"deb " + archive + " " + suite + " main",
		"deb " + archive + " " + suite + "-updates main",
		"deb " + security + " " + suite + "-security main",
	}, "\n")
}
