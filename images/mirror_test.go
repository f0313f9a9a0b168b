package images

import (
	"testing"
	"testing/fstest"
)

func TestDebianSources(t *testing.T) {
	for _, tt := range []struct {
		name    string
		files   map[string]string
		sources string
	}{
		{"nothing configured", nil, ""},
		{"one-line format", map[string]string{"sources.list": `
# deb http://commented.example bookworm main
deb-src http://m.example/debian bookworm main
deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg arch=amd64] http://m.example/debian bookworm main contrib # mine
deb	http://m.example/debian bookworm-updates main
deb http://s.example/debian-security bookworm-security main
deb http://other.example/debian bookworm contrib
deb cdrom:[Debian]/ bookworm main`},
			"deb http://m.example/debian bookworm main\ndeb http://m.example/debian bookworm-updates main\ndeb http://s.example/debian-security bookworm-security main"},
		{"stanzas", map[string]string{"sources.list.d/debian.sources": `Types: deb deb-src
# a comment
URIs: https://m.example/d
Suites: bookworm
 bookworm-updates
Components: main

Types: deb
Enabled: no
URIs: http://off.example/debian
Suites: bookworm
Components: main

Types: deb-src
URIs: http://src.example/debian
Suites: bookworm
Components: main
`, "sources.list.d/x.list.disabled": "deb http://ignored.example/debian bookworm main"},
			"deb https://m.example/d bookworm main\ndeb https://m.example/d bookworm-updates main"},
		{"others' packages for Debian", map[string]string{"sources.list": "deb http://m.example/debian bookworm main\n",
			"sources.list.d/a.list":    "deb [arch=amd64 signed-by=/usr/share/keyrings/vendor-archive-keyring.gpg] https://apt.vendor.example bookworm main\n",
			"sources.list.d/b.sources": "Types: deb\nURIs: https://b.example/\nSuites: bookworm\nComponents: main\nSigned-By: /etc/apt/keyrings/b.asc\n",
			"sources.list.d/c.sources": "Types: deb\nURIs: https://c.example/\nSuites: bookworm\nComponents: main\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mDME\n -----END PGP PUBLIC KEY BLOCK-----\n",
		}, "deb http://m.example/debian bookworm main"},
		{"others' packages on another suite of Debian", map[string]string{
			"sources.list.d/a.list":         "deb [signed-by=/etc/apt/keyrings/runner.asc] https://packages.example/runner/debian/ trixie main\n",
			"sources.list.d/debian.sources": "Types: deb\nURIs: http://m.example/debian\nSuites: trixie\nComponents: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.pgp\n",
		}, "deb http://m.example/debian bookworm main\ndeb http://m.example/debian bookworm-updates main\ndeb http://m.example/debian-security bookworm-security main"},
		{"another suite of Debian", map[string]string{"sources.list.d/a.list": "deb http://m.example/debian/ trixie main\ndeb http://m.example/debian-security trixie-security main\n"},
			"deb http://m.example/debian/ bookworm main\ndeb http://m.example/debian/ bookworm-updates main\ndeb http://m.example/debian-security bookworm-security main"},
		{"another suite without its security", map[string]string{"sources.list.d/a.list": "deb http://m.example/debian sid main\n"},
			"deb http://m.example/debian bookworm main\ndeb http://m.example/debian bookworm-updates main\ndeb http://m.example/debian-security bookworm-security main"},
		{"another distribution", map[string]string{"sources.list": "deb http://archive.example/ubuntu noble main"}, ""},
	} {
		etc := fstest.MapFS{}
		for name, text := range tt.files {
			etc[name] = &fstest.MapFile{Data: []byte(text)}
		}
		all, err := aptSources(etc)
		if err != nil {
			t.Fatal(err)
		}
		if sources := debianSources(all, "bookworm"); sources != tt.sources {
			t.Errorf("%s:\nsources %q, want\n%q", tt.name, sources, tt.sources)
		}
	}
}

func FuzzAptSources(f *testing.F) {
	f.Add("deb [a=b] http://m/debian bookworm main", "Types: deb\nURIs: u\n v\nSuites: s\nComponents: main")
	f.Add("deb [", " x\n:\n\nTypes")
	f.Fuzz(func(t *testing.T, list, stanzas string) {
		for _, s := range append(oneLineSources(list), deb822Sources(stanzas)...) {
			if s.uri == "" || s.suite == "" {
				t.Errorf("source %+v", s)
			}
		}
	})
}
