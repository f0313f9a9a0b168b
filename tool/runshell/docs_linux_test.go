package runshell

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/corral-exec/corral/pathenv"
)

var update = flag.Bool("update", false, "write the table in docs/reference/run_shell_command.md")

// The table of parameters in the documentation is that of the schema.
func TestDocs(t *testing.T) {
	const file = "../../docs/reference/run_shell_command.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	in := newTool(t, Config{}).Definitions()[0].Input
	table := "| parameter | type | default | |\n|---|---|---|---|\n"
	for _, name := range in.PropertyOrder {
		p := in.Properties[name]
		byDefault := string(p.Default)
		if slices.Contains(in.Required, name) {
			byDefault = "required"
		}
		table += fmt.Sprintf("| `%s` | %s | %s | %s |\n", name, p.Type, byDefault, strings.ReplaceAll(p.Description, "|", `\|`))
	}
	const begin, end = "<!-- begin run_shell_command -->\n", "<!-- end run_shell_command -->"
	before, rest, ok1 := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no place for the parameters", file)
	}
	want := before + begin + table + end + after
	if want == string(text) {
		return
	}
	if !*update {
		t.Fatalf("%s is not up to date; run: go test ./tool/runshell -run TestDocs -update", file)
	}
	if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestDefinitions(t *testing.T) {
	for profile, want := range map[pathenv.Profile]string{pathenv.ProfileQwen: "[command is_background]", pathenv.ProfileAsimi: "[command]"} {
		list := newTool(t, Config{Profile: profile}).Definitions()
		d := list[0]
		if len(list) != 1 || d.Name != "run_shell_command" || d.Description != Description || fmt.Sprint(d.Input.Required) != want {
			t.Errorf("%s: %+v", profile, d)
		}
		for name, p := range d.Input.Properties {
			if p.Description == "" || p.Type != map[bool]string{true: "boolean", false: "string"}[name == "is_background"] {
				t.Errorf("%s: %s is %+v", profile, name, p)
			}
		}
		out := d.Output
		if fmt.Sprint(out.Required) != "[stdout stderr exitCode signal error pid backgroundPids]" || out.Properties["backgroundPids"].Type != "array" ||
			fmt.Sprint(out.Properties["exitCode"].Types) != "[null integer]" {
			t.Errorf("%+v, %+v", out, out.Properties["exitCode"])
		}
	}
}

func TestNew(t *testing.T) {
	ex := anything(t)
	for _, cfg := range []Config{
		{}, {Executor: ex}, {Executor: ex, Profile: pathenv.ProfileExec, Root: "."}, {Executor: ex, Profile: pathenv.ProfileQwen},
		{Executor: ex, Profile: pathenv.ProfileQwen, Root: "/no/such/directory"}, {Executor: ex, Profile: pathenv.ProfileQwen, Root: "docs_test.go"},
		{Executor: ex, Profile: pathenv.ProfileQwen, Dir: "/x", CoreTools: []string{"run_shell_command(ls"}},
		{Executor: ex, Profile: pathenv.ProfileQwen, Dir: "/x", ExcludeTools: []string{"run_shell_command(rm)x", "ShellTool rm"}},
	} {
		if tool, err := New(cfg); err == nil {
			t.Errorf("%+v: %+v", cfg, tool)
		}
	}
	if _, err := New(Config{Executor: ex, Profile: pathenv.ProfileQwen, Dir: "/x", CoreTools: []string{"*", "ReadFile", "run_shell_commander", "run_shell_command()", " ShellTool(ls) "}}); err != nil {
		t.Error(err)
	}
}

func TestWindowsCommandLine(t *testing.T) {
	for text, want := range map[string]string{
		"dir":                                    `cmd.exe /d /s /c "dir"`,
		`"C:\Program Files\a.exe" "x y" && echo`: `cmd.exe /d /s /c ""C:\Program Files\a.exe" "x y" && echo"`,
		`echo \"`:                                `cmd.exe /d /s /c "echo \""`,
		`start /b server.exe`:                    `cmd.exe /d /s /c "start /b server.exe"`,
	} {
		if got := WindowsCommandLine(text); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
}
