package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// The closed sets of the file that no other package has.
type (
	Mode         string // of sandbox.mode
	Scope        string // of sandbox.scope
	Engine       string // of sandbox.engine
	Driver       string // of sandbox.driver
	Access       string // of sandbox.workspaceAccess
	Medium       string // of sandbox.workspaceMedium
	Login        string // of sandbox.login
	Chaining     string // of tools.exec.allowlist.chaining
	Redirections string // of tools.exec.allowlist.redirections
	Level        string // of tools.elevated.default
	Profile      string // of tools.runShellCommand.profile
	Approver     string // of node.approvals
)

// The values that they have.
const (
	ModeOff Mode = "off"
	ModeAll Mode = "all"

	ScopeSession Scope = "session"
	ScopeAgent   Scope = "agent"
	ScopeShared  Scope = "shared"

	LoginSnapshot Login = "snapshot"

	ChainingNone Chaining = "none"
	ChainingEach Chaining = "each"

	RedirectionsNone     Redirections = "none"
	RedirectionsHarmless Redirections = "harmless"

	ElevatedOff  Level = "off"
	ElevatedOn   Level = "on"
	ElevatedAsk  Level = "ask" // the same as on
	ElevatedFull Level = "full"

	ApproverGateway Approver = "gateway"
	ApproverLocal   Approver = "local"

	ProfileQwen  Profile = "qwen"
	ProfileAsimi Profile = "asimi"
)

const unlimited = "unlimited"

// Size is a number of bytes; -1 is unlimited.
type Size int64

// Count is a positive number; -1 is unlimited.
type Count float64

// Whole is a positive whole number; -1 is unlimited.
type Whole int64

// Always is true of something that other programs have a switch for.
type Always bool

// sizePattern is how a Size is written as a string.
const sizePattern = `^([0-9]+(\.[0-9]+)?[kmgtKMGT]?([iI]?[bB])?|unlimited)$`

// UnmarshalJSON reads bytes, "512m" or "unlimited".
func (s *Size) UnmarshalJSON(data []byte) error {
	var text string
	if data[0] != '"' {
		text = string(data)
	} else if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	if text == unlimited {
		*s = -1
		return nil
	}
	number := strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(text), "b"), "i")
	factor := 1.0
	if i := strings.IndexAny(number, "kmgt"); i >= 0 {
		factor = float64(int64(1) << (10 * (1 + strings.IndexByte("kmgt", number[i]))))
		number = number[:i]
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return fmt.Errorf("%q is no size", text)
	}
	if f *= factor; f < minSize || f > maxSize {
		return fmt.Errorf("%s is not between 6m and 8192t", text)
	}
	*s = Size(f)
	return nil
}

// Bounds of a Size. No container starts with less memory.
const (
	minSize = 6 << 20
	maxSize = 1 << 53
)

// UnmarshalJSON reads a number or "unlimited".
func (c *Count) UnmarshalJSON(data []byte) error {
	return orUnlimited(data, (*float64)(c))
}

// UnmarshalJSON reads a number or "unlimited".
func (w *Whole) UnmarshalJSON(data []byte) error {
	return orUnlimited(data, (*int64)(w))
}

func orUnlimited[T int64 | float64](data []byte, n *T) error {
	if bytes.Equal(data, []byte(`"`+unlimited+`"`)) {
		*n = -1
		return nil
	}
	return json.Unmarshal(data, n)
}

// Senders says who may do something: entries by the name of a provider, "*"
// being all of them. Each entry is "*" for all, or what
// [Sender.Matches] takes.
type Senders map[string][]string

// UnmarshalJSON reads an object, or a list, which is for all providers.
func (s *Senders) UnmarshalJSON(data []byte) error {
	if data[0] == '[' {
		var all []string
		err := json.Unmarshal(data, &all)
		*s = Senders{anyProvider: all}
		return err
	}
	return json.Unmarshal(data, (*map[string][]string)(s))
}
