package patch

import (
	"fmt"
	"slices"
	"strings"
)

// Settings say which models have the tool: tools.exec.applyPatch of the configuration.
type Settings struct {
	Enabled bool `json:"enabled"`
	// AllowModels narrows it to these models, with or without their provider.
	// Empty: every model of OpenAI.
	AllowModels []string `json:"allowModels,omitempty"`
}

// Enabled reports whether a model has the tool, and if not, why. A model has a name such
// as "gpt-5.2", "openai/gpt-5.2" or "openrouter/openai/gpt-5.2".
// Only models of OpenAI, Codex included, are trained on the grammar.
func Enabled(model string, s Settings) (ok bool, why string) {
	full := strings.ToLower(strings.TrimSpace(model))
	if !s.Enabled {
		return false, "apply_patch is off: tools.exec.applyPatch.enabled is not true"
	}
	if full == "" {
		return false, "apply_patch is for models of OpenAI alone, and which model calls was not said"
	}
	if !isOpenAI(full) {
		return false, fmt.Sprintf("apply_patch is for models of OpenAI alone, and %q is none", cut(model))
	}
	matches := func(allowed string) bool {
		allowed = strings.ToLower(strings.TrimSpace(allowed))
		return allowed != "" && (allowed == full || strings.HasSuffix(full, "/"+allowed))
	}
	if len(s.AllowModels) > 0 && !slices.ContainsFunc(s.AllowModels, matches) {
		return false, fmt.Sprintf("apply_patch is not for the model %q: tools.exec.applyPatch.allowModels does not list it", cut(model))
	}
	return true, ""
}

// isOpenAI recognizes a model by its provider, or without one by the name of its family.
func isOpenAI(model string) bool {
	elements := strings.Split(model, "/")
	name := elements[len(elements)-1]
	if name == "" {
		return false
	}
	if len(elements) > 1 {
		switch elements[len(elements)-2] {
		case "openai", "openai-codex", "codex":
			return true
		}
		return false
	}
	for _, family := range []string{"gpt-", "chatgpt-", "codex-", "o1", "o3", "o4"} {
		rest, ok := strings.CutPrefix(name, family)
		if ok && (strings.HasSuffix(family, "-") || rest == "" || rest[0] == '-') {
			return true
		}
	}
	return false
}
