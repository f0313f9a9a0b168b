package pathenv

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// realShells are the shells that may be /bin/sh in an image, each with its file and its
// argv[0]. They must be installed.
var realShells = []struct{ file, argv0 string }{
	{"/bin/dash", "sh"},
	{"/bin/bash", "sh"},
	{"/bin/bash", "bash"},
	{"/bin/busybox", "sh"},
}

// runLogin runs text as the sandbox would, by one real shell.
func runLogin(file, argv0, home, text string, prepend []string, extra ...string) (stdout, stderr string, err error) {
	return runShell(file, argv0, SandboxOptions{Shell: text, PathPrepend: prepend, Home: home}, extra...)
}

func runShell(file, argv0 string, o SandboxOptions, extra ...string) (stdout, stderr string, err error) {
	launch, err := Sandbox(o)
	if err != nil {
		return "", "", err
	}
	var out, errs bytes.Buffer
	cmd := exec.Cmd{Path: file, Args: append([]string{argv0}, launch.Args[1:]...), Env: append(launch.Env.Vars, extra...), Dir: o.Home, Stdout: &out, Stderr: &errs}
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// dirName draws any name that a directory of a PATH can have. It prefers bytes that are
// special to shells: quotes, expansions, and the control and high bytes by which dash and
// bash mark quoting internally.
func dirName() *rapid.Generator[string] {
	anyByte := rapid.Byte()
	special := rapid.SampledFrom([]byte(" \t\n\r'\"`$\\*?[]{}()<>|&;!#~=%^-.,@+\x01\x02\x7f\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\xc3\xff"))
	chunk := rapid.OneOf(
		rapid.Map(anyByte, func(b byte) string { return string([]byte{b}) }),
		rapid.Map(special, func(b byte) string { return string([]byte{b}) }),
		rapid.SampledFrom([]string{"$PATH", "${HOME}", "$(exit 3)", "`exit 3`", "~", "~root", "$'\\n'", "é", "漢字", "a", "bin", "-n", "\\0", "%s", "''"}),
	)
	return rapid.Custom(func(t *rapid.T) string {
		name := strings.Join(rapid.SliceOfN(chunk, 1, 40).Draw(t, "chunks"), "")
		return name[:min(len(name), 200)]
	}).Filter(func(name string) bool {
		return name != "." && name != ".." && !strings.ContainsAny(name, "\x00:/")
	})
}

// TestAnyDirectorySurvives puts a program into directories of any name and
// runs it by its bare name, after a real login profile has reset PATH.
func TestAnyDirectorySurvives(t *testing.T) {
	root := t.TempDir()
	home := filepath.Join(root, "home")
	mkdir(t, home)
	// A profile that resets PATH, as Debian's /etc/profile does.
	writeFile(t, filepath.Join(home, ".profile"), "PATH=/usr/bin:/bin\nexport PATH\n", 0o600)
	round, cases := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(dirName(), 1, 8, rapid.ID[string]).Draw(t, "names")
		locale := rapid.SampledFrom([]string{"LC_ALL=C", "LC_ALL=C.UTF-8"}).Draw(t, "locale")
		round++
		base := filepath.Join(root, fmt.Sprint(round))
		if err := os.Mkdir(base, 0o700); err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(base)

		// Each program prints its own path: the kernel adds it to the arguments of
		// the interpreter, byte for byte.
		var dirs []string
		var text, want strings.Builder
		text.WriteString("env -0; printf '\\0'; ")
		for i, name := range names {
			dir := base + "/" + name
			program := fmt.Sprintf("program-%d", i)
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(dir+"/"+program, []byte("#!/bin/echo ran\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			dirs = append(dirs, dir)
			text.WriteString(program + "; ")
			want.WriteString("ran " + dir + "/" + program + "\n")
		}
		for _, shell := range realShells {
			out, errs, err := runLogin(shell.file, shell.argv0, home, text.String(), dirs, locale)
			if err != nil {
				t.Fatalf("%v: %v: %s", shell, err, errs)
			}
			block, ran, _ := strings.Cut(out, "\x00\x00")
			env := parseEnvBlock([]byte(block + "\x00"))
			if got := strings.Split(env["PATH"], ":"); !slices.Equal(got, append(slices.Clone(dirs), "/usr/bin", "/bin")) {
				t.Errorf("%v: PATH is %q, want %q and /usr/bin:/bin", shell, got, dirs)
			}
			if _, ok := env[prependVariable]; ok {
				t.Errorf("%v: the command sees %s", shell, prependVariable)
			}
			if ran != want.String() {
				t.Errorf("%v: ran %q, want %q", shell, ran, want.String())
			}
			cases += len(names)
		}
	})
	t.Logf("%d directories looked up", cases)
}

// TestPrependPrefix checks the other properties of the prefix, in every shell.
func TestPrependPrefix(t *testing.T) {
	tests := []struct {
		name, profile, text, want string
		extra                     []string
	}{
		{name: "profile resets PATH", profile: "PATH=/usr/bin:/bin", text: `echo "$PATH"`, want: "/pre/a:/pre/b:/usr/bin:/bin\n"},
		{name: "profile empties PATH", profile: "PATH=", text: `echo "$PATH"`, want: "/pre/a:/pre/b\n"},
		{name: "profile unsets PATH", profile: "unset PATH", text: `echo "$PATH"`, want: "/pre/a:/pre/b\n"},
		{name: "PATH is exported again", profile: "unset PATH; PATH=/usr/bin:/bin", text: `/usr/bin/env | /bin/grep ^PATH=`, want: "PATH=/pre/a:/pre/b:/usr/bin:/bin\n"},
		{name: "profile removes the internal variable", profile: "PATH=/usr/bin; unset CORRAL_PREPEND_PATH", text: `echo "$PATH"`, want: "/usr/bin\n"},
		{name: "strict profile", profile: "set -eu; unset PATH; unset CORRAL_PREPEND_PATH", text: `echo "<$PATH>"`, want: "<>\n"},
		{name: "internal variable is gone", text: `echo "<${CORRAL_PREPEND_PATH-unset}>"`, want: "<unset>\n"},
		{name: "nothing is split or expanded", profile: "PATH=/usr/bin; IFS=/", text: `echo "$PATH"`, want: "/pre/a:/pre/b:/usr/bin\n"},
		{name: "exit status before the command", text: `echo $?`, want: "0\n"},
		{name: "comment", text: "# nothing\necho x", want: "x\n"},
		{name: "leading newline and heredoc", text: "\ncat <<E\n$((1+1))\nE\n", want: "2\n"},
	}
	for _, test := range tests {
		for _, shell := range realShells {
			t.Run(test.name+"/"+filepath.Base(shell.file)+" as "+shell.argv0, func(t *testing.T) {
				home := t.TempDir()
				writeFile(t, filepath.Join(home, ".profile"), test.profile+"\n", 0o600)
				out, errs, err := runLogin(shell.file, shell.argv0, home, test.text, []string{"/pre/a", "/pre/b"})
				if err != nil || out != test.want {
					t.Errorf("%q printed %q, want %q (%v, %s)", test.text, out, test.want, err, errs)
				}
			})
		}
	}
}

// TestImagePath has a profile, which an image may come with, do things to the image's PATH.
func TestImagePath(t *testing.T) {
	const image = "/opt/go/bin:/opt/$x:/usr/bin:/bin:/opt/last"
	const show = `echo "$PATH ${CORRAL_IMAGE_PATH_BEFORE-}${CORRAL_IMAGE_PATH_BEHIND-}${CORRAL_PREPEND_PATH-}."`
	tests := []struct {
		name, image, profile, want string
		prepend                    []string
	}{
		{name: "no profile", image: image, want: image},
		{name: "set anew", image: image, profile: "PATH=/bin:/games", want: "/opt/go/bin:/opt/$x:/bin:/games:/opt/last"},
		{name: "added to", image: image, profile: "PATH=~/bin:$PATH:/more", want: "HOME/bin:" + image + ":/more"},
		{name: "added to what the image did not change", image: ContainerPath, profile: "PATH=/bin:/games", want: "/bin:/games"},
		{name: "the image has only its own", image: "/opt/a", profile: "PATH=/usr/bin:/bin", want: "/opt/a:/usr/bin:/bin"},
		{name: "behind alone", image: "/bin:/opt/b:/usr/bin", profile: "PATH=/usr/bin:/bin", want: "/usr/bin:/bin:/opt/b"},
		{name: "emptied", image: "/opt/a:/bin:/opt/b", profile: "PATH=", want: "/opt/a:/opt/b"},
		{name: "a part of a name is not the directory", image: "/opt/a:/bin", profile: "PATH=/opt/ab:/bin", want: "/opt/a:/opt/ab:/bin"},
		{name: "strict, and no variable is left", image: image, profile: "set -eu; unset PATH CORRAL_IMAGE_PATH_BEFORE CORRAL_IMAGE_PATH_BEHIND; PATH=/bin", want: "/bin"},
		{name: "strict, and no PATH", image: image, profile: "set -eu; unset PATH", want: "/opt/go/bin:/opt/$x:/opt/last"},
		{name: "pathPrepend", image: image, profile: "PATH=/bin", prepend: []string{"/pre", "/opt/last"}, want: "/pre:/opt/last:/opt/go/bin:/opt/$x:/bin"},
	}
	for _, test := range tests {
		for _, shell := range realShells {
			t.Run(test.name+"/"+filepath.Base(shell.file)+" as "+shell.argv0, func(t *testing.T) {
				home := t.TempDir()
				writeFile(t, filepath.Join(home, ".profile"), "PATH="+"'"+strings.Join(append(slices.Clone(test.prepend), test.image), ":")+"'\n"+test.profile+"\n", 0o600) // which /etc/profile of this machine has reset
				out, errs, err := runShell(shell.file, shell.argv0, SandboxOptions{Shell: show, Image: []string{"PATH=" + test.image}, PathPrepend: test.prepend, Home: home})
				if want := strings.ReplaceAll(test.want, "HOME", home) + " .\n"; err != nil || out != want {
					t.Errorf("printed %q, want %q (%v, %s)", out, want, err, errs)
				}
			})
		}
	}
}

// TestNodeKeepsItsPath: /etc/profile assigns PATH, which must not lose the one
// that the node's service was given.
func TestNodeKeepsItsPath(t *testing.T) {
	node := must(Node(NodeOptions{Inherited: []string{"PATH=/service:/usr/bin"}, Call: map[string]string{"PATH": "/call:$PATH"}}))
	launch := node.LoginShell(`echo "$PATH"`, node.PathDirs())
	home := t.TempDir()
	writeFile(t, filepath.Join(home, ".profile"), "PATH=/profile:/bin\n", 0o600)
	cmd := exec.Command(launch.Args[0], launch.Args[1:]...)
	cmd.Env = append(launch.Env.Vars, "HOME="+home)
	out, err := cmd.Output()
	if want := "/call:/service:/usr/bin:/profile:/bin\n"; string(out) != want || err != nil {
		t.Errorf("PATH is %q (%v), want %q", out, err, want)
	}
}

// TestPrependPrefixKeepsLines compares the messages of a shell, which name
// lines, with and without the prefix.
func TestPrependPrefixKeepsLines(t *testing.T) {
	const text = "nosuch\necho $LINENO\n\nnosuch\n"
	home := t.TempDir()
	for _, shell := range realShells {
		wantOut, wantErrs, _ := runLogin(shell.file, shell.argv0, home, text, nil)
		out, errs, _ := runLogin(shell.file, shell.argv0, home, text, []string{"/pre"})
		if out != wantOut || errs != wantErrs || !strings.Contains(errs, "nosuch") {
			t.Errorf("%v: with the prefix %q and %q, without %q and %q", shell, out, errs, wantOut, wantErrs)
		}
	}
}

func mkdir(t testing.TB, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}
