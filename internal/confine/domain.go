// Package confine has the shape of an execution domain: what a command may
// execute and write where the kernel enforces it. The policy makes one, it travels
// with the command to the warden of its machine, and package landlock puts it in
// force. This package is data alone: the contract names it, and the warden, which
// has to stay small, links it.
package confine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
)

// A Domain is what a command, and all that it starts, may execute and write. Paths
// are absolute.
type Domain struct {
	// Programs may be executed: files, and directories, which end with a slash: all
	// that is in them may, at any depth.
	Programs []string `json:"programs,omitempty"`
	// Loaders are executed by the kernel, to load other programs. Nothing may
	// execute them by themselves, since they run whatever they are given.
	Loaders []string `json:"loaders,omitempty"`
	// AnyProgram: what is executed is not limited, and the two are empty.
	AnyProgram bool `json:"anyProgram,omitempty"`

	// Writable are the directories, and files, in which files may be written,
	// made and removed.
	Writable []string `json:"writable,omitempty"`
	// AnyFile: that is not limited, and Writable is empty.
	AnyFile bool `json:"anyFile,omitempty"`

	// Required: where the kernel cannot enforce it the command must not start.
	Required bool `json:"required,omitempty"`
	// Hint is the rule to change for more, for people.
	Hint string `json:"hint,omitempty"`
	// Lost are what the command cannot do by it, seen beforehand, in complete
	// sentences. They are for the result of the command: the warden is not told.
	Lost []string `json:"-"`
}

// Limits reports whether there is anything to enforce.
func (d *Domain) Limits() bool { return d != nil && !(d.AnyProgram && d.AnyFile) }

// Bounds of a Domain.
const (
	maxPaths = 4096
	maxPath  = 4096
	maxHint  = 4096
)

// Check says what is wrong with a Domain that came from elsewhere.
func (d *Domain) Check() error {
	if len(d.Programs)+len(d.Loaders)+len(d.Writable) > maxPaths {
		return fmt.Errorf("an execution domain has more than %d paths", maxPaths)
	}
	if len(d.Hint) > maxHint {
		return fmt.Errorf("the hint of an execution domain has more than %d bytes", maxHint)
	}
	for _, list := range [][]string{d.Programs, d.Loaders, d.Writable} {
		for _, p := range list {
			if !path.IsAbs(p) || len(p) > maxPath || strings.ContainsRune(p, 0) {
				return fmt.Errorf("%.100q in an execution domain is no absolute path", p)
			}
		}
	}
	return nil
}

// Bits of the flags of an encoded Domain.
const (
	anyProgram = 1 << iota
	anyFile
	required
)

// Append encodes the Domain after b: the flags, and then each string with which
// list it is of and its length.
func (d *Domain) Append(b []byte) []byte {
	flags := byte(0)
	for bit, on := range map[byte]bool{anyProgram: d.AnyProgram, anyFile: d.AnyFile, required: d.Required} {
		if on {
			flags |= bit
		}
	}
	b = append(b, flags)
	for i, list := range [][]string{d.Programs, d.Loaders, d.Writable, {d.Hint}} {
		for _, s := range list {
			if s == "" { // no hint: Check wants paths
				continue
			}
			b = append(binary.AppendUvarint(append(b, byte(i)), uint64(len(s))), s...)
		}
	}
	return b
}

// ErrMalformed is the error of Parse.
var ErrMalformed = errors.New("malformed execution domain")

// Parse decodes what Append made. What it does not know it refuses: a limit that
// is not understood would be one that is not enforced.
func Parse(b []byte) (*Domain, error) {
	if len(b) == 0 || b[0] >= required<<1 {
		return nil, ErrMalformed
	}
	d := &Domain{AnyProgram: b[0]&anyProgram != 0, AnyFile: b[0]&anyFile != 0, Required: b[0]&required != 0}
	for b = b[1:]; len(b) > 0; {
		size, k := binary.Uvarint(b[1:])
		if k <= 0 || size > uint64(len(b)-1-k) {
			return nil, ErrMalformed
		}
		s := string(b[1+k : 1+k+int(size)])
		switch b[0] {
		case 0:
			d.Programs = append(d.Programs, s)
		case 1:
			d.Loaders = append(d.Loaders, s)
		case 2:
			d.Writable = append(d.Writable, s)
		case 3:
			d.Hint = s
		default:
			return nil, ErrMalformed
		}
		b = b[1+k+int(size):]
	}
	if err := d.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return d, nil
}

// Enforced is what of a Domain is in force for a process.
type Enforced struct {
	// Programs: nothing is executed but what the domain names.
	Programs bool `json:"programs"`
	// Loaders: nor by a loader that is executed itself.
	Loaders bool `json:"loaders"`
	// Files: nothing is written but where the domain says.
	Files bool `json:"files"`
	// Hint is that of the domain.
	Hint string `json:"hint,omitempty"`
}

// Refusal is a sentence about programs that the kernel refused to execute, with
// the rule that would allow them.
func (e *Enforced) Refusal(programs []string) string {
	quoted := make([]string, len(programs))
	for i, p := range programs {
		quoted[i] = strconv.Quote(p)
	}
	list := strings.Join(quoted, ", ")
	if len(quoted) == maxNamed {
		list += " and perhaps more"
	}
	text := "The kernel refused to execute " + list + ": no rule that allowed the command names it. "
	if e == nil || !strings.Contains(e.Hint, "%s") {
		return text + `A rule on its program that has it in "runs" would allow it.`
	}
	return text + "To allow it, write the rule " + strings.Replace(e.Hint, "%s", strings.Join(quoted, ", "), 1) + "."
}

// maxNamed is how many programs are named of a command at most.
const maxNamed = 8

// String says what is in force, in short: "programs, files".
func (e *Enforced) String() string {
	var list []string
	if e != nil && e.Programs {
		list = append(list, "programs")
	}
	if e != nil && e.Files {
		list = append(list, "files")
	}
	return strings.Join(list, ", ")
}

// Bits of Enforced on the wire.
const (
	enforcedPrograms = 1 << iota
	enforcedLoaders
	enforcedFiles
)

// Number encodes what is in force; nil is 0.
func (e *Enforced) Number() (n uint64) {
	if e == nil {
		return 0
	}
	for bit, on := range map[uint64]bool{enforcedPrograms: e.Programs, enforcedLoaders: e.Loaders, enforcedFiles: e.Files} {
		if on {
			n |= bit
		}
	}
	return n
}

// FromNumber decodes what is in force; nil if nothing is.
func FromNumber(n uint64) *Enforced {
	if n == 0 {
		return nil
	}
	return &Enforced{Programs: n&enforcedPrograms != 0, Loaders: n&enforcedLoaders != 0, Files: n&enforcedFiles != 0}
}
