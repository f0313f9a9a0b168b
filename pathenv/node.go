package pathenv

import (
	"cmp"
	"runtime"
	"slices"
	"strings"

	"github.com/corral-exec/corral"
)

// NodeRequestOptions are the inputs of the gateway when it sends a command to a node.
type NodeRequestOptions struct {
	Call        map[string]string
	PathPrepend []string // directories on the node
	GOOS        string   // the node's; empty: linux
}

// NodeRequest returns the variables that the gateway sends to a node: those of the
// call and no others. pathPrepend goes before the call's PATH. If the call has none,
// pathPrepend is dropped with a warning, because the gateway does not know the node's
// PATH. Variables that every node refuses, except PATH, are refused here already.
func NodeRequest(o NodeRequestOptions) (env map[string]string, warnings []string, err error) {
	goos := cmp.Or(o.GOOS, "linux")
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

// NodeKind is the kind of program that runs the node.
type NodeKind string

const (
	NodeHeadless NodeKind = "headless" // a node process; also the empty NodeKind
	NodeMacApp   NodeKind = "macos"    // the companion application of macOS
)

// NodeOptions are the inputs for a command's environment on a node, on the node's side.
type NodeOptions struct {
	Inherited []string          // the node's environment
	Call      map[string]string // the variables that NodeRequest sent
	LoginPath string            // the node's LoginProbe's answer; may be empty

	Keep []string // as in GatewayOptions
	Kind NodeKind

	// OpaqueShell: the command is a shell whose text the node's policy did not
	// see (sh -c in an argument list). Then only the call's variables about
	// display and language are used, so that only the approved command runs.
	OpaqueShell bool

	Profile Profile
	TTY     bool   // the command has a terminal: it gets a TERM
	GOOS    string // empty: the one this program was built for
}

// Node returns the environment of a command on a node.
//
// PATH is the call's additions, then the login shell's PATH on the node, then the
// node's own PATH. The call's PATH must be additions before the node's own PATH. The
// caller gives the node's own PATH in full, or as a last entry $PATH (%PATH% on
// Windows) if it does not know it; no shell expands that entry. A PATH that would
// replace the node's is an ErrDenied. An application on macOS accepts no PATH at all
// and reports it as dropped.
//
// A login profile may reset PATH: run shell text by [Environment.LoginShell]
// with [Environment.PathDirs].
func Node(o NodeOptions) (Environment, error) {
	switch o.Kind {
	case "", NodeHeadless, NodeMacApp:
	default:
		return Environment{}, corral.Errorf(corral.ErrInvalid, "use headless or macos", "unknown kind of node %q", string(o.Kind))
	}
	goos := cmp.Or(o.GOOS, runtime.GOOS)
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
	return checkCall("the call's env on the node", "leave them out; set what every command needs in the node's own environment", call, func(name string) bool {
		return refusedFromCall(name) || isPath(name) && !isPathKey(name, goos)
	})
}

// pathAdditions is the part of asked before the node's own PATH. That may be the PATH of
// the node's service, the PATH of its commands, or a placeholder.
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
