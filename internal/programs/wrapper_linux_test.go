package programs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A real wrapper runs the program that Peel finds.
func TestPeelAsTheProgramsDo(t *testing.T) {
	dir := t.TempDir()
	show := filepath.Join(dir, "show")
	if err := os.WriteFile(show, []byte("#!/bin/sh\nprintf '<%s>' \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []string{
		"nice SHOW a -b", "nice -n 5 SHOW a", "nice -5 SHOW a", "nice --adj 5 SHOW a", "nice -n5 -- SHOW -- a",
		"nohup SHOW a", "nohup -- SHOW a", "timeout 5 SHOW a -k", "timeout -k 1 -s TERM 5 SHOW a", "timeout -sTERM --kill-after=1 5s SHOW a", "timeout --fore 0.5m SHOW a",
		"stdbuf -oL SHOW a", "stdbuf -o L -e0 SHOW a", "env SHOW a", "env -- SHOW a=b", "env LANG=C TERM=x SHOW A=b", "env -u HOME SHOW a", "env -uHOME -C / SHOW a", "env -i SHOW a", "env - SHOW a",
		"env -S 'SHOW a b' c", `env -S 'SHOW "a  b" x\_y' c`, "env '-SSHOW a' b", "env -vS 'LANG=C SHOW # a' b", "env --split-string='SHOW a\\tb'",
		"setsid -w SHOW a", "flock FILE SHOW a -c", "find FILE -exec SHOW x ;", "find FILE -name file -exec SHOW + x + ;", "find FILE -execdir SHOW x ; -exec true ;",
		"chrt -o 0 SHOW a", "ionice -c3 -t SHOW a", "taskset -c 0 SHOW a", "setarch -R SHOW a", "linux64 SHOW a", "prlimit --nofile=64 SHOW a", "xargs -a /dev/null -n1 SHOW a",
		"sh -c 'SHOW a b'", "sh -ec 'SHOW a b'", "bash -euo pipefail -c 'SHOW a b' c d", "bash -co errexit 'SHOW a'", "bash -c -- 'SHOW a'", "bash -norc -c 'SHOW a'", "bash -O extglob +x -c 'SHOW a'", "flock FILE -c 'SHOW a b'",
	} {
		c = strings.NewReplacer("SHOW", show, "FILE", filepath.Join(dir, "file")).Replace(c)
		if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		argv := line(c)
		if _, err := exec.LookPath(argv[0].Text); err != nil {
			t.Fatal(err)
		}
		var args []string
		for _, w := range argv {
			args = append(args, w.Text)
		}
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = dir
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("%s: %v", c, err)
			continue
		}
		l := Peel(argv)
		inner := l.Inner
		if l.Text.Text != "" {
			inner = line(l.Text.Text)
		}
		if len(inner) < 2 || inner[0].Text != show {
			t.Errorf("peel(%s) = %+v", c, l)
			continue
		}
		want := ""
		for _, w := range inner[1:] {
			if !w.Static {
				continue // words from standard input, which is empty here
			}
			want += "<" + w.Text + ">"
		}
		if got := string(out); got != want {
			t.Errorf("%s ran it with %s, and not with %s", c, got, want)
		}
	}
}
