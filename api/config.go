package api

import (
	"encoding/json"

	"github.com/corral-exec/corral/config"
)

// Configuration is the answer of config: what each key comes to for an agent.
type Configuration struct {
	File    string `json:"file"`            // empty: the gateway has none
	Version string `json:"version"`         // another text of the file has another
	Error   string `json:"error,omitempty"` // why the file cannot be used: nothing may run then
	Agent   string `json:"agent"`           // empty: an agent without an entry of its own
	// Agents are those that the file has entries for, in its order.
	Agents []string `json:"agents"`
	// Values have the keys by which to change them for that agent, or else for all.
	Values []config.Value `json:"values"`
	// Flags are what the gateway was started with. They count in the place of the file,
	// for all agents.
	Flags []ConfigFlag `json:"flags"`
}

// ConfigFlag is a key of the configuration in whose place a flag of the gateway counts, or
// the variable of that flag.
type ConfigFlag struct {
	Key   string          `json:"key"`  // such as sandbox.image, at whichever level
	Flag  string          `json:"flag"` // such as --image
	Value json.RawMessage `json:"value"`
}

// ConfigChange is the body of a change of the configuration: one key of the file.
type ConfigChange struct {
	Key string `json:"key"`
	// Value is JSON5; a string needs no quotes where only a string can be. Nil: the key
	// is removed, so that what is set elsewhere, or the default, applies.
	Value *string `json:"value"`
	// Version is the one that the caller saw. If the file has another by now, nothing is
	// changed, and the answer is a 409. Empty: any.
	Version string `json:"version,omitempty"`
}

// ConfigChanged is the answer: what the key comes to now.
type ConfigChanged struct {
	config.Value
	Version string `json:"version"`
	// Remarks are sentences about it, such as that it counts from the next start on.
	Remarks []string `json:"remarks"`
}
