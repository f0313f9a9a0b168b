package pathenv

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/corral-exec/corral"
)

func TestNodeRequest(t *testing.T) {
	tests := []struct {
		name  string
		opts  NodeRequestOptions
		want  map[string]string
		warns bool
		wrong string
	}{
		{"nothing", NodeRequestOptions{}, map[string]string{}, false, ""},
		{"the call's and no others", NodeRequestOptions{Call: map[string]string{"A": "1", "MY_TOKEN": "t"}}, map[string]string{"A": "1", "MY_TOKEN": "t"}, false, ""},
		{"pathPrepend without PATH", NodeRequestOptions{PathPrepend: []string{"/p"}}, map[string]string{}, true, ""},
		{"pathPrepend with a blank PATH", NodeRequestOptions{PathPrepend: []string{"/p"}, Call: map[string]string{"PATH": " "}}, map[string]string{}, true, ""},
		{"pathPrepend before PATH", NodeRequestOptions{PathPrepend: []string{"/p", "/c"}, Call: map[string]string{"PATH": "/c:$PATH"}}, map[string]string{"PATH": "/p:/c:$PATH"}, false, ""},
		{"windows", NodeRequestOptions{GOOS: "windows", PathPrepend: []string{`C:\p`}, Call: map[string]string{"Path": `D:\c;%PATH%`}}, map[string]string{"PATH": `C:\p;D:\c;%PATH%`}, false, ""},
		{"what a node refuses", NodeRequestOptions{Call: map[string]string{"LD_PRELOAD": "x", "Path": "x"}}, nil, false, "on the node: not allowed: LD_PRELOAD, Path"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, warnings, err := NodeRequest(test.opts)
			if test.wrong != "" {
				if !errors.Is(err, corral.ErrDenied) || !strings.Contains(err.Error(), test.wrong) {
					t.Errorf("NodeRequest = %v, want ErrDenied with %q", err, test.wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("sent (-want +got):\n%s", diff)
			}
			if test.warns != (len(warnings) > 0) {
				t.Errorf("warnings are %q", warnings)
			}
		})
	}
}

func TestNodePath(t *testing.T) {
	const own = "PATH=/usr/bin:/bin"
	tests := []struct {
		name  string
		opts  NodeOptions
		want  string
		wrong bool
	}{
		{"none asked for", NodeOptions{Inherited: []string{own}}, "/usr/bin:/bin", false},
		{"login shell's", NodeOptions{Inherited: []string{own}, LoginPath: "/l:/bin"}, "/l:/bin:/usr/bin", false},
		{"no PATH of its own", NodeOptions{}, "/usr/local/bin:/usr/bin:/bin", false},
		{"the same", NodeOptions{Inherited: []string{own}, Call: map[string]string{"PATH": "/usr/bin:/bin"}}, "/usr/bin:/bin", false},
		{"blank", NodeOptions{Inherited: []string{own}, Call: map[string]string{"PATH": ":"}}, "/usr/bin:/bin", false},
		{"additions", NodeOptions{Inherited: []string{own}, Call: map[string]string{"PATH": "/a:/b:/usr/bin:/bin"}}, "/a:/b:/usr/bin:/bin", false},
		{"additions before what commands see", NodeOptions{Inherited: []string{own}, LoginPath: "/l", Call: map[string]string{"PATH": "/a:/l:/usr/bin:/bin"}}, "/a:/l:/usr/bin:/bin", false},
		{"additions before what the service has", NodeOptions{Inherited: []string{own}, LoginPath: "/l", Call: map[string]string{"PATH": "/a:/usr/bin:/bin"}}, "/a:/l:/usr/bin:/bin", false},
		{"additions before $PATH", NodeOptions{Inherited: []string{own}, Call: map[string]string{"PATH": "/a:$PATH"}}, "/a:/usr/bin:/bin", false},
		{"additions before ${PATH}", NodeOptions{Inherited: []string{own}, Call: map[string]string{"PATH": "/a:${PATH}"}}, "/a:/usr/bin:/bin", false},
		{"replacement", NodeOptions{Inherited: []string{own}, Call: map[string]string{"PATH": "/tmp/evil"}}, "", true},
		{"after its own", NodeOptions{Inherited: []string{own}, Call: map[string]string{"PATH": "/usr/bin:/bin:/a"}}, "", true},
		{"after $PATH", NodeOptions{Inherited: []string{own}, Call: map[string]string{"PATH": "$PATH:/a"}}, "", true},
		{"ends like its own", NodeOptions{Inherited: []string{own}, Call: map[string]string{"PATH": "/evil/usr/bin:/bin"}}, "", true},
		{"a part of its own", NodeOptions{Inherited: []string{own}, Call: map[string]string{"PATH": "/a:/bin"}}, "", true},
		{"macOS application", NodeOptions{Inherited: []string{own}, Kind: NodeMacApp, Call: map[string]string{"PATH": "/a:/usr/bin:/bin"}}, "/usr/bin:/bin", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.opts.GOOS = "linux"
			env, err := Node(test.opts)
			if test.wrong {
				if !errors.Is(err, corral.ErrDenied) || !strings.Contains(err.Error(), test.opts.Call["PATH"]) || !strings.Contains(corral.Hint(err), "/usr/bin:/bin") {
					t.Errorf("Node = %v (%s), want ErrDenied naming both PATHs", err, corral.Hint(err))
				}
				return
			}
			if got, _ := env.Lookup("PATH"); got != test.want || err != nil {
				t.Errorf("PATH = %q, %v; want %q", got, err, test.want)
			}
			refused := slices.Contains(env.Dropped, Dropped{"PATH", SourceCall, ReasonPath})
			if want := test.opts.Kind == NodeMacApp; refused != want {
				t.Errorf("reported as dropped: %v, want %v", refused, want)
			}
		})
	}
	if _, err := Node(NodeOptions{Kind: "other"}); !errors.Is(err, corral.ErrInvalid) {
		t.Errorf("an unknown kind: %v, want ErrInvalid", err)
	}
}

func TestNodeOpaqueShell(t *testing.T) {
	env := must(Node(NodeOptions{
		GOOS: "linux", OpaqueShell: true, Inherited: []string{"PATH=/bin", "A=node's", "LD_PRELOAD=x"},
		Call: map[string]string{"A": "call's", "PATH": "/x:/bin", "LC_ALL": "C", "TERM": "dumb"},
	}))
	want := []string{"A=node's", "CORRAL_SHELL=exec", "LC_ALL=C", "OPENCLAW_SHELL=exec", "PATH=/bin", "TERM=dumb"}
	if diff := cmp.Diff(want, env.Vars); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Dropped{{"A", SourceCall, ReasonDisplay}, {"PATH", SourceCall, ReasonDisplay}, {"LD_PRELOAD", SourceNode, ReasonHook}}, env.Dropped); diff != "" {
		t.Errorf("dropped (-want +got):\n%s", diff)
	}
}
