package images

import (
	"path"
	"slices"
	"strings"
	"testing"
)

func TestRecipes(t *testing.T) {
	seen := map[string]string{}
	for name, r := range recipes {
		if r.name != name {
			t.Errorf("the recipe of %s calls itself %s", name, r.name)
		}
		if _, ours, err := own(name); err != nil || !ours {
			t.Errorf("own(%s): %v, %v", name, ours, err)
		}
		digest := r.digest()
		if other, taken := seen[digest]; taken {
			t.Errorf("%s and %s have the same digest", name, other)
		}
		seen[digest] = name
		if config := r.image(); config.Labels[LabelRecipe] != digest || config.Labels[LabelImage] != name {
			t.Errorf("%s is not labelled with its recipe: %v", name, config)
		}
		changed := r
		changed.path += ":/opt/bin"
		if changed.digest() == digest {
			t.Errorf("%s: another PATH, and the same digest", name)
		}
		changed = r
		changed.content = []any{r.content, "more"}
		if changed.digest() == digest {
			t.Errorf("%s: another content, and the same digest", name)
		}
	}
}

func TestPruning(t *testing.T) {
	for _, pattern := range slices.Concat(debianPrune.Drop, debianPrune.Keep) {
		if _, err := path.Match(pattern, ""); err != nil || strings.HasPrefix(pattern, "/") || strings.HasSuffix(pattern, "/") {
			t.Errorf("pattern %q: %v", pattern, err)
		}
	}
	for name, want := range map[string][2]bool{
		"usr":                               {true, true},
		"usr/share/doc":                     {true, true},
		"usr/share/doc/git":                 {false, true},
		"usr/share/doc/git/README":          {false, false},
		"usr/share/doc/git/copyright":       {true, true},
		"usr/share/doc/git/contrib/x":       {false, false},
		"usr/share/locale/de/LC_MESSAGES/x": {false, false},
		"usr/lib/locale/C.utf8/LC_CTYPE":    {true, true},
		"usr/lib/locale/locale-archive":     {true, true},
		"usr/share/man/man1":                {true, true}, // packages put links in it
		"usr/share/man/man1/git.1.gz":       {false, false},
		"usr/share/man/de/man1/git.1.gz":    {false, false},
		"etc/passwd-":                       {false, false},
		"etc/passwd":                        {true, true},
		"proc":                              {true, true},
		"proc/1/root":                       {false, false},
		"var/lib/dpkg/lock-frontend":        {false, false},
	} {
		if keep, below := debianPrune.keeps(name); keep != want[0] || below != want[1] {
			t.Errorf("%s: keep %v, below %v, want %v", name, keep, below, want)
		}
	}
}

func TestBusyboxContent(t *testing.T) {
	var names []string
	for _, e := range busyboxRoot([]byte("binary"), []string{"ls"}, testTime).entries {
		if parent := path.Dir(e.Name); parent != "." && !slices.Contains(names, parent) {
			t.Errorf("%s comes before its directory", e.Name)
		}
		if slices.Contains(names, e.Name) {
			t.Errorf("%s is there twice", e.Name)
		}
		names = append(names, e.Name)
	}
}

func TestAppletNames(t *testing.T) {
	got := appletNames([]byte("sh\n[\n[[\nbusybox\n../../etc/passwd\n\nls\nls\n.\n"))
	if want := []string{"[", "[[", "ls", "sh"}; !slices.Equal(got, want) {
		t.Errorf("applets %q, want %q", got, want)
	}
}
