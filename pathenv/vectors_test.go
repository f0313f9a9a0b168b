package pathenv

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/corral-exec/corral"
)

// A vector is a known answer; see testdata/README.md.
type vector struct {
	ID       string
	Fn       string
	Platform string
	Input    map[string]any
	Expect   map[string]any
	Differs  string
	Want     map[string]any
}

func readVectors(t *testing.T, file string) []vector {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	var vectors []vector
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	for dec.More() {
		var v vector
		if err := dec.Decode(&v); err != nil {
			t.Fatalf("%s, row %d: %v", file, len(vectors)+1, err)
		}
		vectors = append(vectors, v)
	}
	if len(vectors) == 0 {
		t.Fatalf("%s is empty", file)
	}
	return vectors
}

// runVectors compares answers, each computed by the function of that name.
func runVectors(t *testing.T, file string, answer map[string]func(t *testing.T, in, want map[string]any) map[string]any) {
	for _, v := range readVectors(t, file) {
		t.Run(v.ID, func(t *testing.T) {
			f := answer[v.Fn]
			if f == nil {
				t.Fatalf("no function %q", v.Fn)
			}
			want := v.Expect
			if v.Differs != "" {
				if cmp.Equal(v.Expect, v.Want) {
					t.Fatal("the two answers do not differ")
				}
				want = v.Want
			}
			got := roundTrip(t, f(t, v.Input, want))
			if text, ok := want["error_contains"].(string); ok {
				if msg, _ := got["error"].(string); !strings.Contains(msg, text) {
					t.Errorf("%s(%v) = %v, want an error with %q", v.Fn, v.Input, got, text)
				}
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s(%v) (-want +got):\n%s", v.Fn, v.Input, diff)
			}
		})
	}
}

// roundTrip converts an answer to the types of JSON.
func roundTrip(t *testing.T, answer map[string]any) map[string]any {
	t.Helper()
	data, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	var back map[string]any
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	return back
}

func TestEnvironmentVectors(t *testing.T) {
	runVectors(t, "environment.jsonl", map[string]func(*testing.T, map[string]any, map[string]any) map[string]any{
		"policy_set": func(t *testing.T, in, _ map[string]any) map[string]any {
			if in["set"] != "override_blocked_but_inherited_ok" {
				t.Fatalf("no set %v", in["set"])
			}
			return map[string]any{"keys": slices.Sorted(maps.Keys(inheritable))}
		},
		"blocked_everywhere": func(t *testing.T, in, _ map[string]any) map[string]any {
			return map[string]any{"value": isHook(in["key"].(string))}
		},
		"dropped_when_inherited": func(t *testing.T, in, _ map[string]any) map[string]any {
			return map[string]any{"value": whyNotInherited(in["key"].(string)) != ""}
		},
		"sanitise": func(t *testing.T, in, _ map[string]any) map[string]any {
			env := must(Gateway(GatewayOptions{Inherited: environ(in["base"]), GOOS: "linux"}))
			return map[string]any{"env": without(env.Vars, "CORRAL_SHELL", "OPENCLAW_SHELL")}
		},
		"exec_env": func(t *testing.T, in, _ map[string]any) map[string]any {
			env, err := Gateway(GatewayOptions{Inherited: environ(in["inherited"]), Call: stringMap(in["env"]), GOOS: "linux"})
			if err != nil {
				if !errors.Is(err, corral.ErrDenied) {
					t.Errorf("%v is not ErrDenied", err)
				}
				return map[string]any{"error": err.Error()}
			}
			name, ok := strings.CutPrefix(in["command"].(string), "print ")
			if !ok {
				t.Fatalf("cannot read the command %q", in["command"])
			}
			value, _ := env.Lookup(name)
			return map[string]any{"output": value}
		},
		"shell_wrapper_env": func(t *testing.T, in, want map[string]any) map[string]any {
			env := must(Node(NodeOptions{Call: stringMap(in["overrides"]), OpaqueShell: true, GOOS: "linux"}))
			return map[string]any{"kept": keptOf(env, stringMap(in["overrides"]), want["kept"])}
		},
		"node_env": func(t *testing.T, in, _ map[string]any) map[string]any {
			_, err := Node(NodeOptions{Inherited: environ(in["base"]), Call: stringMap(in["overrides"]), GOOS: "linux"})
			if !errors.Is(err, corral.ErrDenied) {
				t.Fatalf("Node = %v, want ErrDenied", err)
			}
			return map[string]any{"error": err.Error()}
		},
		"sandbox_env": func(t *testing.T, in, want map[string]any) map[string]any {
			strict, _ := in["strict"].(bool)
			launch := must(Sandbox(SandboxOptions{Args: []string{"true"}, Config: stringMap(in["env"]), Strict: strict}))
			var blocked []string
			for _, d := range launch.Env.Dropped {
				blocked = append(blocked, d.Name)
			}
			return map[string]any{
				"allowed": keptOf(launch.Env, stringMap(in["env"]), want["allowed"]),
				"blocked": ordered(blocked, want["blocked"]),
			}
		},
	})
}

func TestPathVectors(t *testing.T) {
	runVectors(t, "path.jsonl", map[string]func(*testing.T, map[string]any, map[string]any) map[string]any{
		"gateway_path": func(t *testing.T, in, _ map[string]any) map[string]any {
			login, _ := in["login_shell_path"].(string)
			env := must(Gateway(GatewayOptions{Inherited: []string{"PATH=" + in["process_path"].(string)}, LoginPath: login, GOOS: "linux"}))
			return map[string]any{"entries": env.PathDirs()}
		},
		"merge_prepend": func(t *testing.T, in, _ map[string]any) map[string]any {
			existing, _ := in["existing"].(string)
			return map[string]any{"value": join(Merge(stringList(in["prepend"]), split(existing, ":")), ":")}
		},
		"config_path_prepend": func(t *testing.T, in, _ map[string]any) map[string]any {
			return map[string]any{"entries": must(PrependDirs(stringList(in["pathPrepend"]), in["home"].(string)))}
		},
		"login_probe": func(t *testing.T, in, want map[string]any) map[string]any {
			probes := 0
			p := NewLoginProbe(ProbeOptions{Run: func(context.Context, string, []string, []string) ([]byte, error) {
				probes++
				if text, ok := in["error"].(string); ok {
					return nil, errors.New(text)
				}
				return []byte(in["stdout"].(string)), nil
			}})
			defer p.Close()
			got := map[string]any{"path": nil}
			for range 2 {
				if path, err := p.PATH(t.Context()); err == nil {
					got["path"] = path
				}
			}
			if _, asked := want["probes_for_two_calls"]; asked {
				got["probes_for_two_calls"] = probes
			}
			return got
		},
		"login_shell": func(t *testing.T, in, _ map[string]any) map[string]any {
			file := filepath.Join(t.TempDir(), "shells")
			writeFile(t, file, strings.Join(stringList(in["etc_shells"]), "\n")+"\n", 0o600)
			got := make(map[string]any)
			p := NewLoginProbe(ProbeOptions{
				Environ: []string{"SHELL=" + in["SHELL"].(string)},
				Shells:  file,
				Run: func(_ context.Context, shell string, args, env []string) ([]byte, error) {
					got["shell"], got["args"] = shell, args
					return []byte("PATH=/bin\x00"), nil
				},
			})
			defer p.Close()
			must(p.PATH(t.Context()))
			return got
		},
	})
}

func TestShellVectors(t *testing.T) {
	for _, v := range readVectors(t, "shell.jsonl") {
		t.Run(v.ID, func(t *testing.T) {
			if v.Input["find"] != nil {
				if got := (shellChooser{}).onPath(v.Input["find"].(string), ""); got != "" {
					t.Errorf("found %q on an empty PATH", got)
				}
				return
			}
			exists := stringList(v.Input["exists"])
			goos := map[string]string{"posix": "linux", "windows": "windows"}[v.Platform]
			path, _ := v.Input["PATH"].(string)
			got := Shell(ShellOptions{
				GOOS: goos,
				Path: path,
				Getenv: func(name string) string {
					value, _ := v.Input[name].(string)
					return value
				},
				Executable: func(file string) bool { return slices.Contains(exists, strings.ReplaceAll(file, `\`, "/")) },
			})
			if shell := strings.ReplaceAll(got[0], `\`, "/"); shell != v.Expect["shell"] {
				t.Errorf("Shell = %q, want %v", got, v.Expect["shell"])
			}
			if args := v.Expect["args"]; args != nil && !slices.Equal(got[1:], stringList(args)) {
				t.Errorf("Shell = %q, want arguments %v", got, args)
			}
		})
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(fmt.Sprintf("%v (%s)", err, corral.Hint(err)))
	}
	return value
}

func stringMap(v any) map[string]string {
	m := make(map[string]string)
	if v == nil {
		return m
	}
	for name, value := range v.(map[string]any) {
		m[name] = value.(string)
	}
	return m
}

func stringList(v any) []string {
	var list []string
	if v == nil {
		return nil
	}
	for _, item := range v.([]any) {
		list = append(list, item.(string))
	}
	return list
}

func environ(v any) []string {
	var vars []string
	for name, value := range stringMap(v) {
		vars = append(vars, name+"="+value)
	}
	return vars
}

// without returns variables as a map, less some names.
func without(vars []string, names ...string) map[string]string {
	m := make(map[string]string)
	for _, kv := range vars {
		if name, value, _ := strings.Cut(kv, "="); !slices.Contains(names, name) {
			m[name] = value
		}
	}
	return m
}

// keptOf are the names of asked whose values are in the environment, in the order of want.
func keptOf(env Environment, asked map[string]string, want any) []string {
	var kept []string
	for name, value := range asked {
		if got, ok := env.Lookup(name); ok && got == value {
			kept = append(kept, name)
		}
	}
	return ordered(kept, want)
}

func ordered(list []string, want any) []string {
	order := stringList(want)
	slices.SortFunc(list, func(a, b string) int { return slices.Index(order, a) - slices.Index(order, b) })
	return list
}

func writeFile(t testing.TB, file, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}
