package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The tests of a real module, so that the events are the real thing's.
func TestReport(t *testing.T) {
	const pass = "func TestGood(t *testing.T) { t.Run(\"sub\", func(*testing.T) {}) }\n"
	tests := map[string]struct {
		body string // of a_test.go, after the imports
		ok   bool
		last string
		want []string
		not  []string
	}{
		"pass": {
			body: pass, ok: true, last: "2 passed, 0 failed",
			want: []string{"ok   example.com/a  2 tests"},
		},
		"fail": {
			body: pass + "func TestBad(t *testing.T) { t.Error(\"because\") }\n",
			last: "2 passed, 1 failed",
			want: []string{"--- FAIL example.com/a TestBad", "because", "FAIL example.com/a  3 tests"},
			not:  []string{"TestGood"},
		},
		"fail, with much output": {
			body: "func TestBad(t *testing.T) {\nt.Error(\"because\")\nt.Cleanup(func() { os.Stdout.WriteString(\"a server's log\\n\") })\n}\n",
			last: "0 passed, 1 failed",
			want: []string{"a server's log", "FAIL example.com/a TestBad\n    a_test.go:11: because\n0 passed"},
		},
		"skip": {
			body: pass + "func TestNot(t *testing.T) { t.Skip(\"no engine\") }\n",
			last: "2 passed, 0 failed, 1 skipped (a skip is a failure)",
			want: []string{"--- SKIP example.com/a TestNot", "no engine", "FAIL example.com/a"},
		},
		"panic": {
			body: "func TestBoom(t *testing.T) { panic(\"boom\") }\n",
			last: "0 passed, 1 failed",
			want: []string{"TestBoom", "panic: boom"},
		},
		"exit": {
			body: "func TestMain(m *testing.M) { m.Run(); os.Exit(3) }\n" + pass,
			last: "2 passed, 0 failed, and not everything ran (see above)",
			want: []string{"FAIL example.com/a  2 tests"},
		},
		"does not build": {
			body: "var x int = \"text\"\n",
			last: "0 passed, 0 failed, and not everything ran (see above)",
			want: []string{"a_test.go", "cannot use"},
		},
		"nothing": {body: "", last: "0 passed, 0 failed"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := report1(t, tt.body, "")
			if ok != tt.ok {
				t.Errorf("ok = %v, want %v", ok, tt.ok)
			}
			lines := strings.Split(strings.TrimSpace(got), "\n")
			if last := lines[len(lines)-1]; last != tt.last {
				t.Errorf("last line %q, want %q", last, tt.last)
			}
			for _, w := range tt.want {
				if !strings.Contains(got, w) {
					t.Errorf("no %q in the report", w)
				}
			}
			for _, w := range tt.not {
				if strings.Contains(got, w) {
					t.Errorf("%q in the report", w)
				}
			}
			if t.Failed() {
				t.Log(got)
			}
		})
	}
}

func TestConformance(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out")
	const test = "func TestGood(*testing.T) {}\n"
	if got, ok := report1(t, test, file); ok || !strings.Contains(got, "no suite reported") {
		t.Errorf("without the file: ok = %v\n%s", ok, got)
	}
	text := "conformance: sandbox: 40 cases, 2 unsupported\nconformance: gateway: 42 cases, 0 unsupported\nconformance: sandbox: 40 cases, 2 unsupported\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	want := "conformance: gateway: 42 cases, 0 unsupported\nconformance: sandbox: 40 cases, 2 unsupported\n1 passed, 0 failed\n"
	if got, ok := report1(t, test, file); !ok || !strings.HasSuffix(got, want) {
		t.Errorf("ok = %v, report\n%s\nwant the end\n%s", ok, got, want)
	}
}

func TestCutShort(t *testing.T) {
	var out strings.Builder
	in := `{"Action":"run","Package":"p","Test":"TestX"}` + "\n"
	if ok, err := run(strings.NewReader(in), &out, ""); ok || err != nil || !strings.Contains(out.String(), "p did not end") {
		t.Errorf("ok = %v, %v\n%s", ok, err, out.String())
	}
}

func report1(t *testing.T, body, conformance string) (string, bool) {
	t.Helper()
	dir := t.TempDir()
	imports := "package a\n\nimport (\n\"os\"\n\"testing\"\n)\n\nvar _ = os.Exit\nvar _ testing.TB\n"
	for name, text := range map[string]string{
		"go.mod":    "module example.com/a\n\ngo 1.26\n",
		"a.go":      "package a\n",
		"a_test.go": imports + body,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "test", "-json", "-vet=off", "./...")
	cmd.Dir = dir
	events, err := cmd.Output()
	if len(events) == 0 {
		t.Fatalf("go test: %v", err)
	}
	var out strings.Builder
	ok, err := run(strings.NewReader(string(events)), &out, conformance)
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), ok
}

func TestLongTests(t *testing.T) {
	var out strings.Builder
	r := newReport(&out)
	for _, e := range []event{
		{Test: "TestLong/part", Elapsed: 70},
		{Test: "TestLong", Elapsed: 71.2},
		{Test: "TestShort", Elapsed: 9.9},
		{Test: "TestLonger", Elapsed: 400},
	} {
		e.Action, e.Package = "pass", "a"
		r.event(e)
	}
	r.longest()
	if want := "long   400 s  a TestLonger\nlong    71 s  a TestLong\n"; out.String() != want {
		t.Errorf("got:\n%swant:\n%s", &out, want)
	}
}
