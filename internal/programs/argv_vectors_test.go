package programs

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/corral-exec/corral/internal/test/vectors"
)

// An argvVector is the answer of another tool about a command. Corral's users come from
// that tool; see testdata/README.md.
type argvVector struct {
	ID     string
	Fn     string
	Input  argvInput
	Expect map[string]any
	Newest map[string]any // the answer of a later version, if it differs
}

type argvInput struct {
	Argv, Args, Entries []string
	Variants            [][]string `json:"args_variants"`
	Token, Pattern, Bin string
	MaxDepth            int
	Raw                 string
}

func TestArgvVectors(t *testing.T) {
	for _, v := range vectors.Read[argvVector](t, "testdata/argv.jsonl") {
		t.Run(v.ID, func(t *testing.T) {
			answer := argvAnswers[v.Fn]
			if answer == nil {
				t.Fatalf("no function %q", v.Fn)
			}
			want := v.Expect
			if v.Newest != nil {
				want = v.Newest
			}
			if diff := cmp.Diff(want, vectors.Plain(t, answer(v.Input))); diff != "" {
				t.Errorf("%s %+v (-want +got):\n%s", v.Fn, v.Input, diff)
			}
		})
	}
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

// layersOf peels a command until no wrapper is left.
func layersOf(argv []Word) (layers []Layer, inner []Word) {
	for range MaxLayers {
		l := Peel(argv)
		if l.Kind == LayerNone {
			break
		}
		layers = append(layers, l)
		if l.Kind != layerArgv {
			break
		}
		argv = l.Inner
	}
	return layers, argv
}

func unwrapped(in argvInput) map[string]any {
	switch l := Peel(Literals(in.Argv...)); l.Kind {
	case layerArgv:
		m := map[string]any{"kind": "unwrapped", "argv": argvOf(l.Inner)}
		if l.Name != "busybox" && l.Name != "toybox" {
			m["wrapper"] = l.Name
		}
		return m
	case LayerRefused:
		if l.Name == "busybox" || l.Name == "toybox" {
			return map[string]any{"kind": "blocked"}
		}
		return map[string]any{"kind": "blocked", "wrapper": l.Name}
	default:
		return map[string]any{"kind": "not-wrapper"}
	}
}

// argvAnswers has the functions of the vectors. Those that this package does not have are
// composed of its own.
var argvAnswers = map[string]func(in argvInput) map[string]any{
	"parse_argv_token": func(in argvInput) map[string]any {
		g := newGrammar("output:")
		if s := g.read(Literals("x", in.Raw, "-y")); slices.Equal(s.operands, []int{2}) && len(s.options) == 0 {
			return map[string]any{"kind": "terminator"}
		}
		opts, ok := g.word(in.Raw, 1)
		if !ok {
			return map[string]any{"kind": "unknown"}
		}
		return map[string]any{"kind": "option", "style": "long", "flag": opts[0].text, "inlineValue": opts[0].value.Text}
	},
	"normalize_exe_token": func(in argvInput) map[string]any {
		return map[string]any{"name": NormalizeName(in.Token)}
	},
	"classify": func(in argvInput) map[string]any {
		name := NormalizeName(in.Token)
		return map[string]any{"dispatch": isWrapper(name), "shell": IsShell(name)}
	},
	"unwrap_dispatch":    unwrapped,
	"unwrap_multiplexer": unwrapped,
	"unwrap_env_syntactic": func(in argvInput) map[string]any {
		return map[string]any{"argv": argvOf(Peel(Literals(in.Argv...)).Inner)}
	},
	"trust_plan": func(in argvInput) map[string]any {
		layers, inner := layersOf(Literals(in.Argv...))
		var names []string
		for _, l := range layers {
			switch l.Kind {
			case LayerRefused:
				return map[string]any{"blocked": true, "blockedWrapper": l.Name}
			case layerArgv:
				names = append(names, l.Name)
			}
		}
		return map[string]any{"argv": argvOf(inner), "wrappers": names, "blocked": false}
	},
	"env_manip_before_shell": func(in argvInput) map[string]any {
		layers, _ := layersOf(Literals(in.Argv...))
		manip := slices.ContainsFunc(layers, func(l Layer) bool { return l.Name == "env" && !l.clean })
		return map[string]any{"value": manip && slices.ContainsFunc(layers, func(l Layer) bool { return IsShell(l.Name) })}
	},
	"env_assignment_keys": func(in argvInput) map[string]any {
		var keys []string
		layers, _ := layersOf(Literals(in.Argv...))
		for _, l := range layers {
			keys = append(keys, l.Vars...)
		}
		return map[string]any{"keys": keys}
	},
	"inline_command": func(in argvInput) map[string]any {
		layers, _ := layersOf(Literals(in.Argv...))
		if n := len(layers); n > 0 && layers[n-1].Text.Text != "" {
			return map[string]any{"inline": layers[n-1].Text.Text}
		}
		return map[string]any{"inline": nil}
	},
	"is_shell_invocation": func(in argvInput) map[string]any {
		_, inner := layersOf(Literals(in.Argv...))
		return map[string]any{"value": IsShell(inner[0].Text)}
	},
	"detect": func(in argvInput) map[string]any {
		if label, hit := InlineCode(Literals(in.Argv...)); hit {
			return map[string]any{"hit": label}
		}
		return map[string]any{"hit": nil}
	},
	"interpreter_like_pattern": func(in argvInput) map[string]any {
		return map[string]any{"value": IsInterpreter(in.Pattern)}
	},
	"validate_argv": func(in argvInput) map[string]any {
		check := func(args []string) bool {
			return SafeBinProfiles[in.Bin].Check(Literals(append([]string{in.Bin}, args...)...)) == nil
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
		return map[string]any{"ok": SafeBin{MaxPositional: 1}.Check(Literals(in.Bin)) == nil}
	},
	"defaults": func(argvInput) map[string]any {
		// Package policy has the directories, not this one.
		return map[string]any{"safeBins": DefaultSafeBins, "trustedDirs": []string{"/bin", "/usr/bin"}}
	},
	"normalize": func(in argvInput) map[string]any {
		return map[string]any{"set": SafeBinNames(in.Entries)}
	},
	"build_plan": func(in argvInput) map[string]any {
		at, why := ScriptOperand(Literals(in.Argv...))
		switch {
		case why != "":
			return map[string]any{"ok": false, "message": "SYSTEM_RUN_DENIED: approval cannot safely bind this interpreter/runtime command"}
		case at < 0:
			return map[string]any{"ok": true, "bound_file_index": nil}
		}
		return map[string]any{"ok": true, "bound_file_index": at}
	},
}
