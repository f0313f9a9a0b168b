package programs

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// passes reports whether a command would be allowed if every program in it were allowed.
func passes(argv []Word, layers int) bool {
	if len(argv) == 0 || !argv[0].Static || layers > MaxLayers {
		return false
	}
	l := Peel(argv)
	if _, hit := Carrier(argv); hit && !l.clean {
		return false
	}
	switch l.Kind {
	case LayerNone:
		_, code := InlineCode(argv)
		return !code
	case layerArgv:
		for _, inner := range append([][]Word{l.Inner}, l.More...) {
			if !passes(inner, layers+1) {
				return false
			}
		}
		return true
	}
	return false // text needs the shell's parser
}

var someWrappers = []string{
	"nice", "nice -n 5", "nohup", "nohup --", "timeout 5", "timeout -k 1 5s", "env", "env LANG=C", "env -u HOME", "stdbuf -oL", "time -p", "command", "exec",
	"sudo", "setsid", "flock x", "xargs", "xargs -n 1", "xargs -I{}", "find . -exec", "busybox", "watch -x", "strace -f", "caffeinate -i", "chroot /x", "arch -arm64",
}

var someCommands = []string{
	"rm $x", "sh -c x", "bash", "bash -s", "git -c a=b log", "git frob", "tar --to-command=x -xf y", "sort -o x", "sort --comp x", "python3 -c x", "awk p", "sed p", "xargs", "xargs sh", "find . -delete",
	"find . -exec rm {} ;", "sudo ls", "env A=b ls", "env -S x", "env -i ls", "vim", "less", "make CC=x", "node -r x y", "perl -e x", "npx x", "ssh h x", "busybox ls", "timeout x ls", "nice --frob ls", "-x", "$x", "ls", "git status", "cat x",
}

// A command that does not pass does not pass behind any number of wrappers either.
func TestWrappersHideNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		argv := line(rapid.SampledFrom(someCommands).Draw(t, "command"))
		if passes(argv, 0) {
			return
		}
		for range rapid.IntRange(1, 5).Draw(t, "layers") {
			argv = append(line(rapid.SampledFrom(someWrappers).Draw(t, "wrapper")), argv...)
		}
		if passes(argv, 0) {
			t.Fatalf("%s passes", spaced(argv))
		}
	})
}

// A command does not pass just because one of its words is unknown.
func TestUnknownWordsHideNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		argv := line(rapid.SampledFrom(someCommands).Draw(t, "command"))
		if passes(argv, 0) {
			return
		}
		known := slices.Clone(argv)
		i := rapid.IntRange(0, len(argv)-1).Draw(t, "word")
		argv[i].Static, argv[i].Prefix = false, ""
		if passes(argv, 0) {
			t.Fatalf("%s does not pass, and it does if %q is not known", spaced(known), known[i].Text)
		}
	})
}

func FuzzArgv(f *testing.F) {
	for _, w := range someWrappers {
		f.Add(w + " ls")
	}
	for _, c := range someCommands {
		f.Add(c)
	}
	for _, c := range []string{"env -S '\\", "env -S ${", "tr --", "head -", "cmd /", "powershell -", "nice -", "bash -o", "bash +", "find -exec", "git -c", "ip n e x", "sqlite3 x ''", "npx", "pnpm -C", "bun run", "deno --", ". --", "su -", "ssh h -p", "setarch x", "perl -0l", "sort --=", "make -j8 f="} {
		f.Add(c)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4096 {
			return
		}
		argv := line(text)
		before := slices.Clone(argv)
		if l := Peel(argv); l.Kind == layerArgv && len(l.Inner) == 0 {
			t.Errorf("peel(%q) runs nothing", text)
		} else if l.Kind == layerArgv && !l.Inner[0].Static {
			t.Errorf("peel(%q) runs what is not known", text)
		} else if l.Kind == LayerText && l.clean {
			t.Errorf("peel(%q) is clean text", text)
		} else if l.Kind == LayerNone && (l.Inner != nil || l.More != nil || l.Text.Text != "" || l.Own || l.clean) {
			t.Errorf("peel(%q) is no layer: %+v", text, l)
		}
		if reason, hit := Carrier(argv); hit != (reason != "") || strings.ContainsAny(reason, "\n\x00") {
			t.Errorf("carrier(%q) = %q, %t", text, reason, hit)
		}
		if label, hit := InlineCode(argv); hit != (label != "") {
			t.Errorf("inlineCode(%q) = %q, %t", text, label, hit)
		}
		if at, why := ScriptOperand(argv); at >= len(argv) || at == 0 || at < -1 || at > 0 && why != "" {
			t.Errorf("scriptOperand(%q) = %d, %q", text, at, why)
		} else if at > 0 && !argv[at].Static {
			t.Errorf("scriptOperand(%q) is not known", text)
		}
		passes(argv, 0)
		if len(argv) > 0 {
			for _, b := range SafeBinProfiles {
				if err := b.Check(argv); err == nil && slices.ContainsFunc(argv[1:], func(w Word) bool { return !w.Static || strings.HasPrefix(w.Text, "/") }) {
					t.Errorf("check(%q) passes", text)
				}
			}
		}
		if !slices.Equal(before, argv) {
			t.Errorf("%q was changed", text)
		}
	})
}
