package policy

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/corral-exec/corral/internal/programs"
	"github.com/corral-exec/corral/internal/test/vectors"
)

// An allowlistVector is the answer of another tool about a command. Corral's users
// come from these tools; see testdata/README.md.
type allowlistVector struct {
	ID, Fn, Platform     string
	Input                allowlistInput
	Expect, Seed, Newest map[string]any
}

type allowlistInput struct {
	Command                  string
	Argv                     []string
	Allowlist, SafeBins      []string
	Pattern, Target          string
	Env                      map[string]string
	Entries                  []struct{ Pattern, ArgPattern string }
	Resolution               struct{ RawExecutable, ResolvedPath string }
	ResolvedPath, PathHead   string
	RawExecutable, Cwd       string
	Value, Mode              string
	Scripts                  any
	Fixture                  string
	First, Second, Persisted string
	StrictInlineEval         bool
}

// allowlistDiffers has the vectors for which Corral's answer differs, and why.
var allowlistDiffers = map[string]string{
	"AE-009": "names that differ in case are different files: a pattern matches one of them",
	"AE-012": "`~` is the home directory of the account that the command runs as; no variable of the environment says where rules lead",
	"AE-117": "fish reads a language of its own, which is not parsed: what it is given with -c is asked about",
	"AE-167": "a command is not quoted anew but run as a list of arguments, and each program in it is a path; `env` stays in it, also pinned",
}

// allowlistSkips are the functions that have no counterpart, and why.
var allowlistSkips = map[string]string{
	"windows_escape_arg":    "no command is written anew for cmd.exe",
	"script_preflight":      "scripts are not scanned before they run: it refuses valid commands, and protects from nothing",
	"windows analyze_shell": "text for cmd.exe and PowerShell is not parsed: in allowlist mode all of it needs an approval; a list of arguments does not",
}

// The rows are decided on with the defaults. OpenClaw accepts some rows only because it
// accepts lists of commands and here-documents. Those are decided on with the options
// for these, unless the version that Corral follows refused them.
func TestAllowlistVectors(t *testing.T) {
	agree, all := 0, 0
	seen := map[string]bool{}
	for _, v := range vectors.Read[allowlistVector](t, "testdata/allowlist.jsonl") {
		seen[v.ID] = true
		if v.skipped() != "" {
			continue
		}
		all++
		t.Run(v.ID, func(t *testing.T) {
			answer := allowlistAnswers[v.Fn]
			if answer == nil {
				t.Fatalf("no function %q", v.Fn)
			}
			diff := cmp.Diff(v.want(), vectors.Plain(t, answer(t, v)))
			switch why, differs := allowlistDiffers[v.ID]; {
			case differs && diff == "":
				t.Errorf("does not differ, though it should: %s", why)
			case !differs && diff != "":
				t.Errorf("%s %+v (-want +got):\n%s", v.Fn, v.Input, diff)
			case diff == "":
				agree++
			}
		})
	}
	for id := range allowlistDiffers {
		if !seen[id] {
			t.Errorf("%s is no vector", id)
		}
	}
	t.Logf("%d of %d agree", agree, all)
}

// skipped says why Corral has no counterpart of what the vector tests.
func (v allowlistVector) skipped() string {
	if why := allowlistSkips[v.Fn]; why != "" {
		return why
	}
	if v.Fn == "analyze_shell" && v.Platform == "windows" && v.Expect["ok"] == true {
		return allowlistSkips["windows analyze_shell"]
	}
	return ""
}

// want is the answer that Corral must give: that of the version that it follows, if it
// is known. The texts of reasons are not compared, only that there are some.
func (v allowlistVector) want() map[string]any {
	want := map[string]any{}
	for _, m := range []map[string]any{v.Expect, v.Seed} {
		for k, x := range m {
			want[k] = x
		}
	}
	if v.Seed["ok"] == false {
		delete(want, "chain_heads")
	}
	delete(want, "reason")
	return want
}

// loose reports whether the row needs the options.
func (v allowlistVector) loose() bool {
	return v.want()["ok"] == true || v.want()["satisfied"] == true
}

// system is a file system with the programs that a row names.
func (v allowlistVector) system() (files, *strings.Replacer) {
	names := files{"/bin/bash": "", "/bin/sh": ""}
	dirs := strings.NewReplacer("D/", "/usr/bin/", "R/", "/srv/r/")
	for _, dir := range []string{"/bin/", "/usr/bin/"} {
		for _, name := range strings.Fields("sh bash zsh ksh fish ash env sudo cat printf echo gog-wrapper obsidian-cli head tr tee grep ls rm rg node python whoami false busybox") {
			names[dir+name] = ""
		}
	}
	names["/srv/r/bin/gog-wrapper"] = ""
	if v.Input.PathHead != "" {
		names[v.Input.PathHead] = ""
	}
	return names, dirs
}

// decide decides on the row's command.
func (v allowlistVector) decide(list ...Rule) Decision {
	view, dirs := v.system()
	rules := rulesOf(SecurityAllowlist, AskOnMiss, list...)
	for _, p := range v.Input.Allowlist {
		rules.List = append(rules.List, allow(QuotePattern(dirs.Replace(p))))
	}
	rules.SafeBins.Value = v.Input.SafeBins
	rules.Chaining.Value, rules.Redirections.Value = v.loose(), v.loose()
	req := Request{Shell: []string{"/bin/bash", "-c"}, Dir: "/srv", Path: "/usr/bin:/bin", Home: "/home/a"}
	if v.Input.PathHead != "" {
		req.Path = path.Dir(v.Input.PathHead) + ":" + req.Path
	}
	if v.Platform == "windows" {
		req.Shell = []string{"powershell.exe", "-Command"}
	}
	if req.Args = v.Input.Argv; req.Args == nil {
		req.Command = dirs.Replace(v.Input.Command)
	}
	return Decide(req, rules, view)
}

// analysed reports whether the command has no finding that is refused for all programs.
func analysed(d Decision) bool {
	return !slices.ContainsFunc(d.Findings, func(f Finding) bool { return !f.Passes })
}

func heads(d Decision) (list []string) {
	for _, s := range d.Segments {
		list = append(list, s.Argv[0])
	}
	return list
}

func blocked(d Decision) bool {
	return slices.ContainsFunc(d.Segments, func(s Segment) bool { return s.Refused != "" })
}

var allowlistAnswers = map[string]func(*testing.T, allowlistVector) map[string]any{
	"glob_match": func(_ *testing.T, v allowlistVector) map[string]any {
		r := allow(v.Input.Pattern)
		return map[string]any{"match": r.allows(target{paths: []string{v.Input.Target}, argv: programs.Literals("x"), home: v.Input.Env["HOME"]}, "")}
	},
	"match_allowlist": func(_ *testing.T, v allowlistVector) map[string]any {
		for _, e := range v.Input.Entries {
			if r := allow(e.Pattern); r.allows(target{paths: []string{v.Input.Resolution.ResolvedPath}, argv: programs.Literals(v.Input.Resolution.RawExecutable)}, "") {
				return map[string]any{"matched_pattern": e.Pattern}
			}
		}
		return map[string]any{"matched_pattern": nil}
	},
	"match_allowlist_argv": func(_ *testing.T, v allowlistVector) map[string]any {
		got := map[string]any{"matched": false}
		for _, e := range v.Input.Entries {
			r := Rule{Action: Allow, Pattern: e.Pattern, ArgPattern: e.ArgPattern}
			if r.allows(target{paths: []string{v.Input.Resolution.ResolvedPath}, argv: programs.Literals(v.Input.Argv...)}, "") {
				got["matched"] = true
				if _, says := v.Expect["argPattern"]; says {
					got["argPattern"] = nil
					if e.ArgPattern != "" {
						got["argPattern"] = e.ArgPattern
					}
				}
				break
			}
		}
		return got
	},
	"analyze_shell": func(t *testing.T, v allowlistVector) map[string]any {
		d := v.decide(allow("*"))
		got := map[string]any{"ok": analysed(d)}
		for _, key := range []string{"segment_heads", "chain_heads"} {
			if _, says := v.want()[key]; says {
				got[key] = heads(d)
			}
		}
		if !analysed(d) && d.Reason == "" {
			t.Error("no reason")
		}
		return got
	},
	"analyze_argv": func(_ *testing.T, v allowlistVector) map[string]any {
		d := v.decide()
		return map[string]any{"ok": analysed(d), "segment_heads": heads(d)}
	},
	"eval_shell_allowlist": func(_ *testing.T, v allowlistVector) map[string]any {
		d := v.decide()
		got := map[string]any{"analysisOk": analysed(d), "satisfied": d.Outcome == Allowed}
		if v.Seed != nil || v.want()["satisfied"] == false {
			// Lists of commands that pass are no finding.
			d := v.decideLoose()
			got["analysisOk"] = analysed(d)
		}
		if _, says := v.want()["matches"]; says {
			n := 0
			for _, s := range d.Segments {
				if s.By == byRule {
					n++
				}
			}
			got["matches"] = n
		}
		if _, says := v.want()["policyBlocked"]; says {
			got["policyBlocked"] = blocked(d)
		}
		return got
	},
	"is_safe_bin": func(_ *testing.T, v allowlistVector) map[string]any {
		v.Input.PathHead = v.Input.ResolvedPath
		d := v.decide()
		return map[string]any{"ok": d.Outcome == Allowed}
	},
	"writable_trusted_dir": func(t *testing.T, v allowlistVector) map[string]any {
		mode := fs.FileMode(0)
		if _, err := fmt.Sscanf(v.Input.Mode, "%o", &mode); err != nil {
			t.Fatal(err)
		}
		rules := rulesOf(SecurityAllowlist, AskOnMiss)
		rules.SafeBins.Value, rules.SafeBinDirs = []string{"head"}, []string{"/opt/bin"}
		d := Decide(Request{Args: []string{"/opt/bin/head"}, Dir: "/"}, rules, dirMode{files{"/opt/bin/head": "", "/opt/bin": "dir"}, "/opt/bin", mode})
		warned := strings.Contains(d.Reason, "can be written to by others")
		return map[string]any{"groupWritable": warned && mode&0o020 != 0, "worldWritable": warned && mode&0o002 != 0, "warn": warned}
	},
	"resolve_command": func(_ *testing.T, v allowlistVector) map[string]any {
		d := v.decide(allow("/usr/bin/env"))
		got := map[string]any{"policyBlocked": d.Outcome != Allowed && (blocked(d) || d.Reason != "")}
		for key, x := range map[string]any{"execution": d.Segments[0].Path, "blockedWrapper": d.Segments[0].Argv[0], "allowlisting_env_itself_satisfies": d.Outcome == Allowed} {
			if _, says := v.Expect[key]; says {
				got[key] = x
			}
		}
		return got
	},
	"candidate_path": func(_ *testing.T, v allowlistVector) map[string]any {
		f := finder{req: Request{Dir: v.Input.Cwd}}
		return map[string]any{"path": f.absolute(v.Input.RawExecutable)}
	},
	"enforced_command": func(_ *testing.T, v allowlistVector) map[string]any {
		d := v.decide(allow("/usr/bin/rg"))
		return map[string]any{"contains": d.Run.Args, "excludes": "'env'"}
	},
	"forbid_approve_in_shell": func(_ *testing.T, v allowlistVector) map[string]any {
		rules := rulesOf(SecurityFull, AskOff, allow("*"))
		view, _ := v.system()
		d := Decide(Request{Command: v.Input.Command, Shell: []string{"/bin/bash", "-c"}, Dir: "/srv", Path: "/usr/bin:/bin"}, rules, view)
		return map[string]any{"rejected": d.Outcome == Denied}
	},
	"redirection": func(_ *testing.T, v allowlistVector) map[string]any {
		_, found := Parts(v.Input.Command, "bash")
		return map[string]any{"redirection": slices.ContainsFunc(found, func(f Finding) bool { return f.Kind == Redirection })}
	},
}

// decideLoose decides on the row's command, with lists of commands allowed.
func (v allowlistVector) decideLoose() Decision {
	v.Seed, v.Expect = nil, map[string]any{"ok": true}
	return v.decide()
}

// dirMode is a file system in which one directory has a mode.
type dirMode struct {
	files
	dir  string
	mode fs.FileMode
}

func (d dirMode) Stat(name string) (fs.FileInfo, error) {
	info, err := d.files.Stat(name)
	if err == nil && name == d.dir {
		return modeInfo{info, fs.ModeDir | d.mode}, nil
	}
	return info, err
}

type modeInfo struct {
	fs.FileInfo
	mode fs.FileMode
}

func (m modeInfo) Mode() fs.FileMode { return m.mode }
