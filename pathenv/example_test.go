package pathenv_test

import (
	"fmt"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/pathenv"
)

func ExampleGateway() {
	env, err := pathenv.Gateway(pathenv.GatewayOptions{
		Inherited:   []string{"PATH=/usr/bin:/bin", "LANG=C.UTF-8", "OPENAI_API_KEY=secret"},
		LoginPath:   "/home/u/.cargo/bin:/usr/bin", // from LoginProbe.PATH
		PathPrepend: []string{"/opt/oss/bin"},
		Call:        map[string]string{"CI": "1"},
		GOOS:        "linux",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, kv := range env.Vars {
		fmt.Println(kv)
	}
	for _, entry := range env.Path {
		fmt.Printf("%-20s %s\n", entry.Dir, entry.Origin)
	}
	notice, _ := env.Report() // for the result of each command
	fmt.Println(notice)
	fmt.Println(strings.Join(env.Warnings(), "\n")) // the reasons, on request
	// Output:
	// CI=1
	// CORRAL_SHELL=exec
	// LANG=C.UTF-8
	// OPENCLAW_SHELL=exec
	// PATH=/opt/oss/bin:/home/u/.cargo/bin:/usr/bin:/bin
	// /opt/oss/bin         pathPrepend
	// /home/u/.cargo/bin   login
	// /usr/bin             login
	// /bin                 daemon
	// 1 variable left out: OPENAI_API_KEY
	// Left out of the command's environment: OPENAI_API_KEY from the daemon's environment (looks like a credential and is not listed as wanted).
}

func ExampleGateway_refused() {
	_, err := pathenv.Gateway(pathenv.GatewayOptions{
		Call: map[string]string{"PATH": "/tmp/x", "LD_PRELOAD": "/tmp/x.so", "CI": "1"},
	})
	fmt.Println(err)
	fmt.Println(corral.Hint(err))
	// Output:
	// cannot set the call's env on the gateway: not allowed: LD_PRELOAD, PATH
	// leave them out; directories belong in pathPrepend, and what every command needs in the daemon's own environment
}

func ExampleSandbox() {
	launch, err := pathenv.Sandbox(pathenv.SandboxOptions{
		Shell:       "make test",
		PathPrepend: []string{"/opt/$special dir"},
		Home:        "/workspace",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(launch.Args[:2], strings.HasSuffix(launch.Args[2], "; make test"))
	for _, kv := range launch.Env.Vars {
		fmt.Println(kv)
	}
	// Output:
	// [/bin/sh -lc] true
	// CORRAL_PREPEND_PATH=/opt/$special dir
	// CORRAL_SHELL=exec
	// HOME=/workspace
	// LANG=C.UTF-8
	// OPENCLAW_SHELL=exec
	// PATH=/opt/$special dir:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
}

func ExampleNode() {
	own := []string{"PATH=/usr/bin:/bin"}
	for _, path := range []string{"/opt/bin:$PATH", "/tmp/x"} {
		env, err := pathenv.Node(pathenv.NodeOptions{Inherited: own, Call: map[string]string{"PATH": path}, GOOS: "linux"})
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(pathenv.Join(env.PathDirs()))
	}
	// Output:
	// /opt/bin:/usr/bin:/bin
	// cannot set PATH on the node: "/tmp/x" would replace its own
}
