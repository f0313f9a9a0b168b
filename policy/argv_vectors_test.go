package policy

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// An argvVector is what the tool that Corral's users come from answers about a
// command; see testdata/README.md.
type argvVector struct {
	ID     string
	Fn     string
	Input  argvInput
	Expect map[string]any
	Newest map[string]any // where a later version of it answers otherwise
}

type argvInput struct {
	Argv, Args, Entries []string
	Variants            [][]string `json:"args_variants"`
	Token, Pattern, Bin string
	MaxDepth            int
}

// argvDiffers has the vectors that Corral answers otherwise, and why. There are
// none; the newest answers count, where there are two.
var argvDiffers = map[string]string{}

func TestArgvVectors(t *testing.T) {
	data, err := os.ReadFile("testdata/argv.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		var v argvVector
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		seen[v.ID] = true
		t.Run(v.ID, func(t *testing.T) {
			answer := argvAnswers[v.Fn]
			if answer == nil {
				t.Fatalf("no function %q", v.Fn)
			}
			want := v.Expect
			if v.Newest != nil {
				want = v.Newest
			}
			diff := cmp.Diff(want, jsonOf(t, answer(v.Input)))
			switch why, differs := argvDiffers[v.ID]; {
			case differs && diff == "":
				t.Errorf("does not differ, though it should: %s", why)
			case !differs && diff != "":
				t.Errorf("%s %+v (-want +got):\n%s", v.Fn, v.Input, diff)
			}
		})
	}
	for id := range argvDiffers {
		if !seen[id] {
			t.Errorf("%s is no vector", id)
		}
	}
}

func jsonOf(t *testing.T, v map[string]any) map[string]any {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	return got
}

func argvOf(words []Word) []string {
	if words == nil {
		return nil
	}
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = w.Text
	}
	return out
}

// layersOf peels until nothing is left that can be looked through.
func layersOf(argv []Word) (layers []layer, inner []Word) {
	for range maxLayers {
		l := peel(argv)
		if l.kind == layerNone {
			break
		}
		layers = append(layers, l)
		if l.kind != layerArgv {
			break
		}
		argv = l.inner
	}
	return layers, argv
}

func unwrapped(in argvInput) map[string]any {
	switch l := peel(Literals(in.Argv...)); l.kind {
	case layerArgv:
		m := map[string]any{"kind": "unwrapped", "argv": argvOf(l.inner)}
		if l.name != "busybox" && l.name != "toybox" {
			m["wrapper"] = l.name
		}
		return m
	case layerRefused:
		if l.name == "busybox" || l.name == "toybox" {
			return map[string]any{"kind": "blocked"}
		}
		return map[string]any{"kind": "blocked", "wrapper": l.name}
	default:
		return map[string]any{"kind": "not-wrapper"}
	}
}

// argvAnswers have the functions of the vectors. What is no function of ours is
// put together of ours.
var argvAnswers = map[string]func(in argvInput) map[string]any{
	"normalize_exe_token": func(in argvInput) map[string]any {
		return map[string]any{"name": normalizeName(in.Token)}
	},
	"classify": func(in argvInput) map[string]any {
		name := normalizeName(in.Token)
		return map[string]any{"dispatch": isWrapper(name), "shell": isShell(name)}
	},
	"unwrap_dispatch":    unwrapped,
	"unwrap_multiplexer": unwrapped,
	"unwrap_env_syntactic": func(in argvInput) map[string]any {
		return map[string]any{"argv": argvOf(peel(Literals(in.Argv...)).inner)}
	},
	"trust_plan": func(in argvInput) map[string]any {
		layers, inner := layersOf(Literals(in.Argv...))
		var names []string
		for _, l := range layers {
			switch l.kind {
			case layerRefused:
				return map[string]any{"blocked": true, "blockedWrapper": l.name}
			case layerArgv:
				names = append(names, l.name)
			}
		}
		return map[string]any{"argv": argvOf(inner), "wrappers": names, "blocked": false}
	},
	"env_manip_before_shell": func(in argvInput) map[string]any {
		layers, _ := layersOf(Literals(in.Argv...))
		manip := slices.ContainsFunc(layers, func(l layer) bool { return l.name == "env" && !l.clean })
		return map[string]any{"value": manip && slices.ContainsFunc(layers, func(l layer) bool { return isShell(l.name) })}
	},
	"env_assignment_keys": func(in argvInput) map[string]any {
		var keys []string
		layers, _ := layersOf(Literals(in.Argv...))
		for _, l := range layers {
			keys = append(keys, l.vars...)
		}
		return map[string]any{"keys": keys}
	},
	"inline_command": func(in argvInput) map[string]any {
		layers, _ := layersOf(Literals(in.Argv...))
		if n := len(layers); n > 0 && layers[n-1].text.Text != "" {
			return map[string]any{"inline": layers[n-1].text.Text}
		}
		return map[string]any{"inline": nil}
	},
	"is_shell_invocation": func(in argvInput) map[string]any {
		_, inner := layersOf(Literals(in.Argv...))
		return map[string]any{"value": isShell(inner[0].Text)}
	},
	"detect": func(in argvInput) map[string]any {
		if label, hit := inlineCode(Literals(in.Argv...)); hit {
			return map[string]any{"hit": label}
		}
		return map[string]any{"hit": nil}
	},
	"interpreter_like_pattern": func(in argvInput) map[string]any {
		return map[string]any{"value": isInterpreter(in.Pattern)}
	},
	"validate_argv": func(in argvInput) map[string]any {
		check := func(args []string) bool {
			return safeBinProfiles[in.Bin].check(Literals(append([]string{in.Bin}, args...)...)) == nil
		}
		if in.Variants == nil {
			return map[string]any{"ok": check(in.Args)}
		}
		all := make(map[bool]bool)
		for _, args := range in.Variants {
			all[check(args)] = true
		}
		if len(all) > 1 {
			return map[string]any{"all": "differ"}
		}
		return map[string]any{"all": all[true]}
	},
	"semantics": func(in argvInput) map[string]any {
		return map[string]any{"ok": SafeBin{MaxPositional: 1}.check(Literals(in.Bin)) == nil}
	},
	"defaults": func(argvInput) map[string]any {
		// The directories are not ours to say.
		return map[string]any{"safeBins": defaultSafeBins, "trustedDirs": []string{"/bin", "/usr/bin"}}
	},
	"normalize": func(in argvInput) map[string]any {
		return map[string]any{"set": safeBinNames(in.Entries)}
	},
	"build_plan": func(in argvInput) map[string]any {
		at, why := scriptOperand(Literals(in.Argv...))
		switch {
		case why != "":
			return map[string]any{"ok": false, "message": "SYSTEM_RUN_DENIED: approval cannot safely bind this interpreter/runtime command"}
		case at < 0:
			return map[string]any{"ok": true, "bound_file_index": nil}
		}
		return map[string]any{"ok": true, "bound_file_index": at}
	},
}
