package policy_test

import (
	"encoding/binary"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// The files that furtherBypasses need beside fixtureFiles.
var (
	// gitFiles have git run rm in place of an editor, a manual viewer or gpg.
	gitFiles = map[string]string{".gitconfig": `[user]
name = a
email = a@b
[core]
editor = "rm victim;"
[sequence]
editor = "rm victim;"
[gpg]
program = @RM@
[man]
viewer = x
[man "x"]
cmd = "rm victim;"
[branch "main"]
remote = .
merge = refs/heads/base
`}
	gitChanged = with(gitFiles, "list", "another\n")
	gitSigned  = with(gitFiles, "signed", "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\n"+
		"gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\nm\n")

	translated = map[string]string{"locale/en/LC_MESSAGES/x.mo": translation("hi", "$(rm victim)")}

	// around are the files for every row.
	around = map[string]string{
		"evil.gitconfig": "[core]\nfsmonitor = @RM@\n", "evilhome/.gitconfig": "[core]\nfsmonitor = @RM@\n", "evilhome/git/config": "[core]\nfsmonitor = @RM@\n",
		"evil.wgetrc": "use_askpass=@RM@\n", "greprc": "rm victim;\n", "list2": "rm victim\n",
		"evildocker/config.json": "{}", "evildocker/cli-plugins/docker-evil": "#!/bin/sh\nrm victim\n",
		"evil.apt":            "APT::Update::Pre-Invoke {\"rm victim\";};\nDir::Etc::sourcelist \"/dev/null\";\nDir::Etc::sourceparts \"/dev/null\";\nDir::State \"@DIR@/apt\";\nDir::Cache \"@DIR@/apt\";\n",
		"apt/lists/partial/x": "", "apt/archives/partial/x": "",
		"gconv/gconv-modules": "module EVIL// INTERNAL @SO@ 1\nmodule INTERNAL EVIL// @SO@ 1\n",
		"evil.cnf":            "openssl_conf=a\n[a]\nengines=b\n[b]\nc=d\n[d]\ndynamic_path=@SO@\ninit=0\n",
		"plib/Pod/Man.pm":     `system("rm victim"); 1;`, "plib/Evil.pm": `system("rm victim"); 1;`, "plib/Devel/Evil.pm": `system("rm victim"); 1;`,
		"pylib/sitecustomize.py": `import os; os.environ.pop("PYTHONPATH", 0); os.system("rm victim")`,
		"tcllib/init.tcl":        "exec rm victim\n",
		"a.pod":                  "=head1 A\n", "ok.py": "1\n", "ok.tcl": "set a 1\n", "ok.sh": ":\n", "ok.js": "1\n", "ok.pl": "1;\n", "x.c": "int main(void) { return 0; }\n",
		"x.po": "msgid \"\"\nmsgstr \"Content-Type: text/plain; charset=UTF-8\\n\"\n\nmsgid \"a\"\nmsgstr \"b\"\n",
	}
)

// stashSigned stashes the commit in gitSigned, whose ID follows from its content.
const stashSigned = "git hash-object -w -t commit signed; git update-ref --create-reflog -m x refs/stash af4f1d9fc5cb4489355d5e822d35d7f4026e9ba8; "

func with(files map[string]string, name, content string) map[string]string {
	files = maps.Clone(files)
	files[name] = content
	return files
}

// translation is a file of gettext with one translation.
func translation(from, to string) string {
	head := "Content-Type: text/plain; charset=UTF-8\n"
	texts := head + "\x00" + from + "\x00" + to + "\x00"
	const at = 28 + 16 + 16 // behind the header and two tables of two
	var b []byte
	for _, n := range []int{
		0x950412de, 0, 2, 28, 28 + 16, 0, 0,
		0, at + len(head), len(from), at + len(head) + 1,
		len(head), at, len(to), at + len(head) + 1 + len(from) + 1,
	} {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	return string(b) + texts
}

// evilCode runs rm when it is loaded.
const evilCode = `#include <stdlib.h>
__attribute__((constructor)) static void run(void) {
	unsetenv("LD_PRELOAD"); unsetenv("LD_AUDIT"); unsetenv("JAVA_TOOL_OPTIONS"); unsetenv("JDK_JAVA_OPTIONS"); unsetenv("OPENSSL_CONF");
	if (system("rm victim")) {}
}
unsigned int la_version(unsigned int v) { return v; }
`

// Bypasses by the surroundings of a command. Each runs a program that no rule names.
// The policy allows none of them, except where an allowed program reads a file of the
// workspace by itself: only the kernel can stop these.
func TestBypassesAround(t *testing.T) {
	f := newFixture(t)
	f.allowlists = true // a rule that denies is a net for mistakes
	compiler := installed("gcc")
	if compiler != "" {
		source := filepath.Join(f.shared, "evil.c")
		write(t, source, evilCode, 0o644)
		if out, err := exec.CommandContext(t.Context(), compiler, "-shared", "-fPIC", "-o", filepath.Join(f.shared, "evil.so"), source).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	var mu sync.Mutex
	counts := map[string]int{}
	t.Run("all", func(t *testing.T) {
		for _, class := range slices.Concat(furtherBypasses, workspaceBypasses) {
			t.Run(class.name, func(t *testing.T) {
				t.Parallel()
				for _, row := range class.rows {
					files := maps.Clone(around)
					maps.Copy(files, row.files)
					row.files = files
					dir := f.make(t, row)
					if strings.Contains(row.text, "pull") || strings.Contains(row.text, "GIT_DIR") || len(row.env) > 0 && strings.HasPrefix(row.env[0], "GIT_DIR") {
						f.prepareGit(t, dir)
					}
					text := f.filled(row.text, dir)
					f.check(t, row, dir, text)
					what := "proved"
					switch {
					case row.unproved != "":
						what = "not run"
					case row.needs != "" && !present(row.needs), row.code && compiler == "":
						what = "of programs that are not installed"
					case !f.prove(t, row, dir, text):
						t.Errorf("%s: is no bypass: it does not run rm", row.name())
					case row.kernel != "":
						what = "for the kernel"
					}
					mu.Lock()
					counts[what]++
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("bypasses: %v", counts)
	if counts["proved"] < 100 || counts["for the kernel"] > 12 {
		t.Errorf("too few bypasses are proved, or too many left to the kernel: %v", counts)
	}
}

// prepareGit makes a branch to pull from, and a repository with hooks.
func (f fixture) prepareGit(t *testing.T, dir string) {
	t.Helper()
	git := installed("git")
	for _, args := range [][]string{
		{"-C", dir, "branch", "base", "HEAD~1"},
		{"clone", "-q", "--bare", filepath.Join(dir, ".git"), filepath.Join(dir, "evil.git")},
		{"-C", filepath.Join(dir, "evil.git"), "config", "core.fsmonitor", filepath.Join(f.bin, "rm")},
		{"-C", filepath.Join(dir, "evil.git"), "config", "core.bare", "false"},
		{"-C", filepath.Join(dir, "evil.git"), "config", "core.hooksPath", filepath.Join(dir, "hooks")},
	} {
		if out, err := exec.CommandContext(t.Context(), git, args...).CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
}

// No table finds these: what an allowed program reads from a file of the workspace is
// not in the command.
const inWorkspace = "what a program reads of its own accord is not in the command"

var workspaceBypasses = []bypassClass{
	{"configuration in the workspace", []bypass{
		{text: "git status", files: map[string]string{".git/config": "[core]\nfsmonitor = @RM@\n"}, kernel: inWorkspace},
		{text: "git commit --allow-empty -m a", files: map[string]string{".git/hooks/pre-commit": "#!/bin/sh\nrm victim\n"}, kernel: inWorkspace},
		{text: "git diff HEAD~1", files: map[string]string{".git/config": "[diff]\nexternal = @RM@\n"}, kernel: inWorkspace},
		{text: "git diff HEAD~1", files: map[string]string{".git/config": "[diff \"x\"]\ntextconv = @RM@\n", ".gitattributes": "* diff=x\n"}, kernel: inWorkspace},
		{text: "git add evil.mk", files: map[string]string{".git/config": "[filter \"x\"]\nclean = @RM@\n", ".gitattributes": "* filter=x\n"}, kernel: inWorkspace},
		{text: "git ls-remote ssh://h/x", files: map[string]string{".git/config": "[core]\nsshCommand = rm victim;\n"}, kernel: inWorkspace},
		{text: "git ls-remote x", files: map[string]string{".git/config": "[remote \"x\"]\nurl = .\nuploadpack = rm victim;\n"}, kernel: inWorkspace},
		{text: "make", files: map[string]string{"Makefile": "all:\n\trm victim\n"}, needs: "make", kernel: inWorkspace},
		{text: "git x", files: map[string]string{".git/config": "[alias]\nx = !rm victim\n"}},
		{text: "git --git-dir=evil.git log --show-signature", unproved: "needs a signature"},
		{text: "python3 -m evil"},
		{text: "node -r ./evil.js ok.js", needs: "node"},
		{text: "apt-get -c evil.apt update", needs: "apt-get"},
		{text: "openssl req -config evil.cnf -new", needs: "openssl", code: true},
	}},
}
