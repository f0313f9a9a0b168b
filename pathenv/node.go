package pathenv

import (
	"slices"
	"strings"

	"github.com/corral-exec/corral"
)

// NodeRequestOptions are what the gateway knows when it sends a command to a
// node.
type NodeRequestOptions struct {
	Call        map[string]string
	PathPrepend []string // directories on the node
	GOOS        string   // the node's; empty: linux
}

// NodeRequest returns the variables that the gateway sends to a node: those of
// the call and no others. pathPrepend goes before the call's PATH and without
// one nowhere, because the gateway does not know the node's PATH; the warnings
// then say so. What a node would refuse in any case, save PATH, is refused
// here already.
func NodeRequest(o NodeRequestOptions) (env map[string]string, warnings []string, err error) {
	goos := o.GOOS
	if goos == "" {
		goos = "linux"
	}
	sep := listSeparator(goos)
	if err := checkDirs(o.PathPrepend, sep); err != nil {
		return nil, nil, err
	}
	if err := checkNodeCall(o.Call, goos); err != nil {
		return nil, nil, err
	}
	env = make(map[string]string, len(o.Call))
	asked := callPath(o.Call, goos)
	for name, value := range o.Call {
		if !isPathKey(name, goos) {
			env[name] = value
		}
	}
	switch {
	case len(asked) > 0:
		env["PATH"] = join(Merge(o.PathPrepend, asked), sep)
	case len(Merge(o.PathPrepend)) > 0:
		warnings = append(warnings, "pathPrepend does not apply on a node unless the call sets env.PATH; set the PATH of the node's own service instead.")
	}
	return env, warnings, nil
}

// NodeKind is what stands at the other end.
type NodeKind string

const (
	NodeHeadless NodeKind = "headless" // a node process; also the empty NodeKind
	NodeMacApp   NodeKind = "macos"    // the companion application of macOS
)

// NodeOptions are what a command's environment on a node is made of, on the
// node.
type NodeOptions struct {
	Inherited []string          // the node's environment
	Call      map[string]string // what NodeRequest sent
	LoginPath string            // the node's LoginProbe's answer; may be empty

	Keep []string // as in GatewayOptions
	Kind NodeKind

	// OpaqueShell says that the command is a shell whose text the node's
	// policy did not see (sh -c in an argument list): of the call's
	// variables only those about display and language are taken, so that
	// what was approved is what runs.
	OpaqueShell bool

	Profile Profile
	TTY     bool   // the command has a terminal: it gets a TERM
	GOOS    string // empty: the one this program was built for
}

// Node returns the environment of a command on a node.
//
// PATH is the call's additions, then the node's login shell's, then the
// node's own. The call's PATH must be additions before the node's own PATH,
// which it gives in full or as a last entry $PATH (%PATH% on Windows), since a
// caller need not know it; that entry is recognised, not expanded by a shell.
// A PATH that would replace the node's is an ErrDenied. An application on
// macOS takes no PATH at all and reports it as dropped.
//
// A login profile may reset PATH: run shell text by [Environment.LoginShell]
// with [Environment.PathDirs].
func Node(o NodeOptions) (Environment, error) {
	switch o.Kind {
	case "", NodeHeadless, NodeMacApp:
	default:
		return Environment{}, corral.Errorf(corral.ErrInvalid, "use headless or macos", "unknown kind of node %q", string(o.Kind))
	}
	goos := orHost(o.GOOS)
	sep := listSeparator(goos)
	if err := checkNodeCall(o.Call, goos); err != nil {
		return Environment{}, err
	}
	b := newBuilder(goos)
	b.inherit(o.Inherited, o.Keep, SourceNode)
	daemon, login := ownPath(b), split(o.LoginPath, sep)

	var additions []string
	for _, name := range sortedNames(o.Call) {
		switch upper := strings.ToUpper(name); {
		case o.OpaqueShell && !displayOnly[upper] && !strings.HasPrefix(upper, "LC_"):
			b.drop(name, SourceCall, ReasonDisplay)
		case isPathKey(name, goos) && o.Kind == NodeMacApp:
			b.drop(name, SourceCall, ReasonPath)
		case isPathKey(name, goos):
			var err error
			if additions, err = pathAdditions(split(o.Call[name], sep), daemon, Merge(login, daemon), sep); err != nil {
				return Environment{}, err
			}
		default:
			b.set(name, o.Call[name])
		}
	}
	path := mergeParts(pathPart{OriginCall, additions}, pathPart{OriginLogin, login}, pathPart{OriginDaemon, daemon})
	return b.finish(o.Profile, o.TTY, path, o.Call)
}

func checkNodeCall(call map[string]string, goos string) error {
	return checkCall("on the node", "leave them out; set what every command needs in the node's own environment", call, func(name string) bool {
		return refusedFromCall(name) || isPath(name) && !isPathKey(name, goos)
	})
}

// pathAdditions is what asked has before the node's own PATH: as its service
// has it, as its commands see it, or as a placeholder.
func pathAdditions(asked, daemon, full []string, sep string) ([]string, error) {
	if len(asked) == 0 { // a blank PATH asks for nothing
		return nil, nil
	}
	for _, own := range [][]string{full, daemon, {"$PATH"}, {"${PATH}"}, {"%PATH%"}} {
		if n := len(asked) - len(own); n >= 0 && slices.Equal(asked[n:], own) {
			return asked[:n], nil
		}
	}
	return nil, corral.Errorf(corral.ErrDenied,
		"a node takes only directories before its own PATH: end the value with "+sep+"$PATH, or with "+strings.Join(daemon, sep),
		"cannot set PATH on the node: %q would replace its own", strings.Join(asked, sep))
}
