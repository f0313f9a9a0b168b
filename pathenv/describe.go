package pathenv

import (
	"strings"

	"github.com/corral-exec/corral/internal/lazy"
)

// A Description is an Environment for people: its variables, where they come from,
// and the variables that were left out.
type Description struct {
	Path      []PathEntry `json:"path"`
	Variables []Variable  `json:"variables"`
	Dropped   []Dropped   `json:"dropped"`
}

// A Variable of a Description.
type Variable struct {
	Name   string `json:"name"`
	Origin Origin `json:"origin"`
	// Value is nil if values were not asked for, or Secret.
	Value *string `json:"value,omitempty"`
	// Secret: it looks like a credential, and is not shown.
	Secret bool `json:"secret,omitempty"`
}

// Origins of variables, beside those of entries of PATH.
const (
	OriginCorral Origin = "corral" // set by Corral: markers, and TERM
	OriginMerged Origin = "merged" // PATH: each of its entries has an origin
)

// Describe describes the environment of a command on the gateway or a node.
// Call is the env of the call. With values, it shows values that do not look like
// credentials.
func (e Environment) Describe(call map[string]string, values bool) Description {
	d := Description{Path: append([]PathEntry{}, e.Path...), Variables: []Variable{}, Dropped: append([]Dropped{}, e.Dropped...)}
	for _, kv := range e.Vars {
		name, value, _ := strings.Cut(kv, "=")
		v := Variable{Name: name, Origin: OriginDaemon, Secret: secret(name, value)}
		_, asked := call[name]
		switch {
		case isPath(name):
			v.Origin = OriginMerged
		case isMarker(name):
			v.Origin = OriginCorral
		case asked:
			v.Origin = OriginCall
		}
		if values && !v.Secret {
			v.Value = &value
		}
		d.Variables = append(d.Variables, v)
	}
	return d
}

func isMarker(name string) bool {
	for _, p := range []Profile{ProfileExec, ProfileQwen, ProfileAsimi} {
		markers, err := p.markers()
		if _, ok := markers[name]; ok && err == nil {
			return true
		}
	}
	return false
}

// secretWords mark names of variables whose values are not shown. The list is wider than
// that of variables withheld from commands, since hiding a value breaks nothing.
var secretWords = []string{"TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH", "COOKIE", "API_KEY", "APIKEY", "PRIVATE", "DSN"}

// secretValue matches a password in a URL, or the beginning of a key of a well-known
// service.
var secretValue = lazy.Regexp(`://[^/@\s]*:[^/@\s]+@|-----BEGIN|\b(sk-|ghp_|gho_|github_pat_|glpat-|xox[abp]-|AKIA|AIza|eyJ)[A-Za-z0-9_-]{10,}`)

func secret(name, value string) bool {
	upper := strings.ToUpper(name)
	for _, word := range secretWords {
		if strings.Contains(upper, word) {
			return true
		}
	}
	return isCredential(name) || secretValue().MatchString(value)
}
