package ports

import (
	"regexp"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"sandboxes.example.com":         "https://80-a.sandboxes.example.com/",
		"Sandboxes.Example.COM":         "https://80-a.sandboxes.example.com/",
		"sandboxes.example.com:443":     "https://80-a.sandboxes.example.com/",
		"sandboxes.example.com:8443":    "https://80-a.sandboxes.example.com:8443/",
		"http://localhost:7777":         "http://80-a.localhost:7777/",
		"https://sandboxes.example.com": "https://80-a.sandboxes.example.com/",
	} {
		d, err := Parse(text)
		if err != nil || d.URL(80, "a") != want || d.IsZero() {
			t.Errorf("%s: %s, %v, want %s", text, d.URL(80, "a"), err, want)
		}
	}
	for _, text := range []string{
		"127.0.0.1", "[::1]:80", "a_b", "-a.example", "a..b", "*.example.com", "ftp://a", "https://u@a", "https://a/b", "a?b", "a#b", "a b",
		strings.Repeat("a.", 100) + "com", "https://", "a:port",
	} {
		if d, err := Parse(text); err == nil {
			t.Errorf("%q is taken for %+v", text, d)
		}
	}
}

func TestMatch(t *testing.T) {
	d, err := Parse("boxes.example:8443")
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]struct {
		port       int
		label      string
		inside, ok bool
	}{
		"8000-main.boxes.example":      {8000, "main", true, true},
		"8000-main.boxes.example.":     {8000, "main", true, true},
		"8000-main.boxes.example:8443": {8000, "main", true, true},
		"8000-Main.Boxes.EXAMPLE:1":    {8000, "main", true, true},
		"1-a-b-1.boxes.example":        {1, "a-b-1", true, true},
		"boxes.example":                {},
		"xboxes.example":               {},
		"8000-main.boxes.example.evil": {},
		"main.boxes.example":           {inside: true},
		"0-main.boxes.example":         {inside: true},
		"080-main.boxes.example":       {inside: true},
		"65536-main.boxes.example":     {inside: true},
		"+1-main.boxes.example":        {inside: true},
		"1-.boxes.example":             {inside: true},
		"1-a.b.boxes.example":          {inside: true},
		"1-a_b.boxes.example":          {inside: true},
		"-1-a.boxes.example":           {inside: true},
		".boxes.example":               {inside: true},
		"":                             {},
	} {
		port, label, inside, ok := d.Match(host)
		if inside != want.inside || ok != want.ok || ok && (port != want.port || label != want.label) {
			t.Errorf("%q: %d %q %v %v", host, port, label, inside, ok)
		}
	}
	if _, _, inside, _ := (Domain{}).Match("8000-main."); inside {
		t.Error("no domain has a host")
	}
}

// FuzzMatch: what is a port's host is so again when it is made from its parts.
func FuzzMatch(f *testing.F) {
	d, err := Parse("boxes.example")
	if err != nil {
		f.Fatal(err)
	}
	for _, host := range []string{"8000-main.boxes.example", "1-a.boxes.example:80", "x.boxes.example", "[::1]:80", "00-a.boxes.example"} {
		f.Add(host)
	}
	f.Fuzz(func(t *testing.T, host string) {
		port, label, inside, ok := d.Match(host)
		if !ok {
			return
		}
		again, l, _, ok := d.Match(d.Host(port, label))
		if !inside || !ok || again != port || l != label || port < 1 || port > 65535 || label == "" {
			t.Errorf("%q is port %d of %q, and that is %d of %q", host, port, label, again, l)
		}
	})
}

func TestLabel(t *testing.T) {
	valid := regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	seen := map[string]string{}
	for _, name := range []string{
		"main", "Main", "a.b", "a-b", "a_b", "agent-main-0123456789abcdef", "x-0123456789abcdef0123", "X-0123456789abcdef0123",
		strings.Repeat("a", 57), strings.Repeat("a", 58), strings.Repeat("a", 64), "a-", "...", "1",
	} {
		l := Label(name)
		if !valid.MatchString(l) || len(l) > maxName {
			t.Errorf("%q: the label %q cannot be part of a host name", name, l)
		}
		if other, ok := seen[l]; ok {
			t.Errorf("%q and %q have one label, %q", name, other, l)
		}
		seen[l] = name
	}
	if Label("main") != "main" || Label("agent-main-0123456789abcdef") != "agent-main-0123456789abcdef" {
		t.Error("a name that can be a label is another")
	}
}

func TestSecret(t *testing.T) {
	s := Secret("s")
	if !s.Opens("a", s.Token("a")) || s.Opens("b", s.Token("a")) || Secret("t").Opens("a", s.Token("a")) || s.Opens("a", "") || Secret("").Opens("a", Secret("").Token("a")) {
		t.Error("a token opens what it should not, or does not what it should")
	}
}
