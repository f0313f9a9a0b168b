package config

import (
	"slices"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
)

// A Tool is a name in tools.allow and tools.deny.
type Tool string

// The names. The last two stand for all the others.
const (
	ToolExec            Tool = "exec"
	ToolProcess         Tool = "process"
	ToolApplyPatch      Tool = "apply_patch"
	ToolRunShellCommand Tool = "run_shell_command"
	ToolGroupRuntime    Tool = "group:runtime"
	ToolAny             Tool = "*"
)

var toolNames = []Tool{ToolExec, ToolProcess, ToolApplyPatch, ToolRunShellCommand, ToolGroupRuntime, ToolAny}

// Check says why a tool may not be called; nil if it may. Deny beats allow, on
// whichever level it is. The error is an ErrDenied.
func (t Tools) Check(tool Tool) error {
	for _, deny := range t.Deny {
		if i := slices.IndexFunc(deny.Value, func(name Tool) bool { return name.denies(tool) }); i >= 0 {
			return corral.Errorf(corral.ErrDenied, "take "+string(deny.Value[i])+" out of tools.deny, if it may be used",
				"the tool %s is denied by %v", tool, where(deny.Source, "tools.deny"))
		}
	}
	for _, allow := range t.Allow {
		if !slices.ContainsFunc(allow.Value, func(name Tool) bool { return name.allows(tool) }) {
			return corral.Errorf(corral.ErrDenied, "add "+string(tool)+" to tools.allow, if it may be used",
				"the tool %s is not in %v", tool, where(allow.Source, "tools.allow"))
		}
	}
	return nil
}

// all reports whether the name stands for every tool.
func (t Tool) all() bool { return t == ToolGroupRuntime || t == ToolAny }

// allows: an agent that may run commands can change files by them, too.
func (t Tool) allows(tool Tool) bool {
	return t == tool || t.all() || t == ToolExec && tool == ToolApplyPatch
}

// denies: nothing brings back what was turned off, under another name or as
// part of another tool.
func (t Tool) denies(tool Tool) bool {
	return t.allows(tool) || t == ToolExec && tool == ToolRunShellCommand
}

// where names the place of a setting, for messages; key is its name if
// it is in no file.
func where(s policy.Source, key string) string {
	if s.File == "" && s.Key == "" {
		return key + " (" + s.Name + ")"
	}
	return s.String()
}

// Policy is what the policy has to know of a command, without what the host's
// own approvals file adds.
func (e Exec) Policy() policy.Rules {
	return policy.Rules{
		Security: e.Security, Ask: e.Ask, AskFallback: e.AskFallback,
		List:            e.Rules,
		Env:             e.Env.Allow,
		SafeBins:        e.SafeBins,
		SafeBinDirs:     e.SafeBinDirs.Value,
		SafeBinProfiles: e.SafeBinProfiles,
		Chaining:        policy.Setting[bool]{Value: e.Allowlist.Chaining.Value == ChainingEach, Source: e.Allowlist.Chaining.Source},
		Enforce:         e.Enforce,
		Redirections:    policy.Setting[bool]{Value: e.Allowlist.Redirections.Value == RedirectionsHarmless, Source: e.Allowlist.Redirections.Source},
	}
}
