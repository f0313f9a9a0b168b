package pathenv

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/corral-exec/corral"
)

// These carry directories past a login profile; see prependPrefix and withImagePath.
const (
	prependVariable = "CORRAL_PREPEND_PATH"
	beforeVariable  = "CORRAL_IMAGE_PATH_BEFORE"
	behindVariable  = "CORRAL_IMAGE_PATH_BEHIND"
)

// isInternal reports whether the variable is one of Corral's own, which no one else sets.
func isInternal(name string) bool {
	switch strings.ToUpper(name) {
	case prependVariable, beforeVariable, behindVariable:
		return true
	}
	return false
}

// isHook reports whether the variable makes programs run other code.
func isHook(name string) bool {
	name = strings.ToUpper(name)
	return hooks[name] || hasPrefix(name, hookPrefixes)
}

// isCredential reports whether a variable of that name holds a secret.
func isCredential(name string) bool {
	name = strings.ToUpper(name)
	return credentials[name] || slices.ContainsFunc(credentialEndings, func(ending string) bool { return strings.HasSuffix(name, ending) })
}

// whyNotInherited is the reason to leave a variable of the daemon out, or "".
func whyNotInherited(name string) Reason {
	upper := strings.ToUpper(name)
	switch {
	case isInternal(upper):
		return ReasonReserved
	case isHook(upper):
		return ReasonHook
	case inheritable[upper]:
		return ""
	case isCredential(upper):
		return ReasonCredential
	case redirects[upper]:
		return ReasonRedirect
	}
	return ""
}

// refusedFromCall reports whether a call on a host may not set the variable.
// It does not check PATH, whose rule differs by host.
func refusedFromCall(name string) bool {
	name = strings.ToUpper(name)
	return isHook(name) || redirects[name] || hasPrefix(name, redirectPrefixes) || steers[name] || hasPrefix(name, steerPrefixes)
}

// ValidName accepts letters, digits and underscores, not beginning with a
// digit, and the parentheses of Windows' ProgramFiles(x86).
func ValidName(name string) bool {
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case c == '_', 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
		case i > 0 && ('0' <= c && c <= '9' || c == '(' || c == ')'):
		default:
			return false
		}
	}
	return name != ""
}

// checkCall refuses an environment as a whole. The error names everything that is
// wrong with it, so that one correction is enough. what names it and its host, and
// refused is the host's rule.
func checkCall(what, hint string, env map[string]string, refused func(name string) bool) error {
	var wrong, invalid, nul []string
	for _, name := range sortedNames(env) {
		switch {
		case !ValidName(name):
			invalid = append(invalid, fmt.Sprintf("%q", name))
		case isInternal(name) || refused(name):
			wrong = append(wrong, name)
		case strings.IndexByte(env[name], 0) >= 0:
			nul = append(nul, name)
		}
	}
	var parts []string
	add := func(label string, names []string) {
		if len(names) > 0 {
			parts = append(parts, label+" "+strings.Join(names, ", "))
		}
	}
	add("not allowed:", wrong)
	add("not names of variables:", invalid)
	add("with a NUL byte in the value:", nul)
	if len(parts) == 0 {
		return nil
	}
	if len(wrong) == 0 {
		hint = "use letters, digits and underscores for names, and no NUL byte in values"
	}
	return corral.Errorf(corral.ErrDenied, hint, "cannot set %s: %s", what, strings.Join(parts, "; "))
}

// sortedNames sorts without regard to case, so that the order in an error does not
// depend on the spelling.
func sortedNames(env map[string]string) []string {
	return slices.SortedFunc(maps.Keys(env), func(a, b string) int {
		return cmp.Or(strings.Compare(strings.ToUpper(a), strings.ToUpper(b)), strings.Compare(a, b))
	})
}

func hasPrefix(name string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}
