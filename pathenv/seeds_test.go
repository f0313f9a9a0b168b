package pathenv

import (
	"errors"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
)

// The sentences of OpenClaw's two documents about exec on PATH and the environment. Where
// they contradict each other, the newer one is the default and the older one a setting.
func TestSentences(t *testing.T) {
	lookup := func(t *testing.T, env Environment, name string) string {
		t.Helper()
		value, _ := env.Lookup(name)
		return value
	}
	gateway := GatewayOptions{Inherited: []string{"PATH=/usr/bin:/bin"}, LoginPath: "/home/a/bin:/bin", GOOS: "linux"}

	t.Run("`host=gateway`: ログインシェルの `PATH` を exec 環境にマージします", func(t *testing.T) {
		env, err := Gateway(gateway)
		if got := lookup(t, env, "PATH"); err != nil || got != "/home/a/bin:/bin:/usr/bin" {
			t.Errorf("PATH=%s, %v", got, err)
		}
	})
	t.Run("**Gateway**：合并登录 shell PATH；拒绝 `env.PATH` 覆盖", func(t *testing.T) {
		o := gateway
		o.Call = map[string]string{"PATH": "/mine"}
		if _, err := Gateway(o); !errors.Is(err, corral.ErrDenied) || !strings.Contains(err.Error(), "PATH") {
			t.Error(err)
		}
	})
	t.Run("（ただし、exec 呼び出し側ですでに `env.PATH` を設定している場合を除く）", func(t *testing.T) {
		o := gateway
		o.EnvPath, o.Call = EnvPathReplace, map[string]string{"PATH": "/mine"}
		env, err := Gateway(o)
		if got := lookup(t, env, "PATH"); err != nil || got != "/mine" {
			t.Errorf("PATH=%s, %v", got, err)
		}
	})
	t.Run("デーモン自体は最小限の `PATH` で動作します", func(t *testing.T) {
		for goos, want := range map[string]string{
			"darwin": "/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin", // macOS: `/opt/homebrew/bin`, `/usr/local/bin`, `/usr/bin`, `/bin`
			"linux":  "/usr/local/bin:/usr/bin:/bin",                   // Linux: `/usr/local/bin`, `/usr/bin`, `/bin`
		} {
			env, err := Gateway(GatewayOptions{GOOS: goos})
			if got := lookup(t, env, "PATH"); err != nil || got != want {
				t.Errorf("%s: PATH=%s, %v", goos, got, err)
			}
		}
	})
	t.Run("Gateway/node 执行拒绝 `env.PATH` 和加载器覆盖以\"防止二进制劫持或注入代码\"", func(t *testing.T) {
		for _, name := range []string{"PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "NODE_OPTIONS", "PYTHONPATH", "BASH_ENV", "GIT_SSH_COMMAND"} {
			o := gateway
			o.Call = map[string]string{name: "/x", "OTHER": "kept"}
			if _, err := Gateway(o); !errors.Is(err, corral.ErrDenied) || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "OTHER") {
				t.Errorf("on the gateway, %s: %v", name, err)
			}
			if _, _, err := NodeRequest(NodeRequestOptions{Call: o.Call}); name != "PATH" && !errors.Is(err, corral.ErrDenied) {
				t.Errorf("for a node, %s: %v", name, err)
			}
		}
	})
	t.Run("`env` (キー/値の上書き)", func(t *testing.T) {
		o := gateway
		o.Inherited, o.Call = append(o.Inherited, "A=1", "B=1"), map[string]string{"A": "2"}
		env, err := Gateway(o)
		if err != nil || lookup(t, env, "A") != "2" || lookup(t, env, "B") != "1" {
			t.Errorf("%v, %v", env.Vars, err)
		}
	})
	t.Run("`tools.exec.pathPrepend`: exec 実行時に `PATH` に前置するディレクトリの一覧。", func(t *testing.T) {
		dirs, err := PrependDirs([]string{"~/bin", "/opt/oss/bin"}, "/home/a") // pathPrepend: ["~/bin", "/opt/oss/bin"]
		if err != nil {
			t.Fatal(err)
		}
		o := gateway
		o.PathPrepend = dirs
		env, err := Gateway(o)
		if got := lookup(t, env, "PATH"); err != nil || got != "/home/a/bin:/opt/oss/bin:/bin:/usr/bin" {
			t.Errorf("PATH=%s, %v", got, err)
		}
	})
	t.Run("`host=sandbox`: コンテナ内で `sh -lc`（ログインシェル）を実行するため、…プロファイル読み込み後に内部環境変数経由で `env.PATH` を先頭に付加します（シェル展開なし）；`tools.exec.pathPrepend` もここで適用されます。", func(t *testing.T) {
		launch, err := Sandbox(SandboxOptions{Shell: "ls", Call: map[string]string{"PATH": "/c:$(x)"}, PathPrepend: []string{"/p"}})
		if err != nil || launch.Args[0] != "/bin/sh" || launch.Args[1] != "-lc" || !strings.HasSuffix(launch.Args[2], "ls") || strings.Contains(launch.Args[2], "/c") {
			t.Fatalf("%q, %v", launch.Args, err)
		}
		if got := lookup(t, launch.Env, prependVariable); got != "/p:/c:$(x)" {
			t.Errorf("%s=%s", prependVariable, got)
		}
	})
	t.Run("**Sandbox**：在容器中运行登录 shell；在配置文件加载后添加 PATH 前缀", func(t *testing.T) {
		launch, err := Sandbox(SandboxOptions{Shell: "ls", PathPrepend: []string{"/p"}})
		if err != nil || !strings.HasPrefix(launch.Args[2], prependPrefix) {
			t.Errorf("%q, %v", launch.Args, err)
		}
	})
	t.Run("`host=node`: 渡した環境変数の上書きのみがノードに送信されます。", func(t *testing.T) {
		env, _, err := NodeRequest(NodeRequestOptions{Call: map[string]string{"A": "1"}})
		if err != nil || len(env) != 1 || env["A"] != "1" {
			t.Errorf("%v, %v", env, err)
		}
	})
	t.Run("`tools.exec.pathPrepend` は、exec 呼び出し側ですでに `env.PATH` を設定している場合にのみ適用されます。", func(t *testing.T) {
		with, _, err := NodeRequest(NodeRequestOptions{PathPrepend: []string{"/p"}, Call: map[string]string{"PATH": "/c:$PATH"}})
		if err != nil || with["PATH"] != "/p:/c:$PATH" {
			t.Errorf("%v, %v", with, err)
		}
		without, warnings, err := NodeRequest(NodeRequestOptions{PathPrepend: []string{"/p"}})
		if _, ok := without["PATH"]; err != nil || ok || len(warnings) == 0 {
			t.Errorf("%v, %q, %v", without, warnings, err)
		}
	})
	node := NodeOptions{Inherited: []string{"PATH=/usr/bin:/bin"}, GOOS: "linux"}
	for _, sentence := range []string{
		"ヘッドレスノードホストは、ノードホスト側の PATH に前置される場合にのみ `PATH` を受け付けます（置換は不可）。",
		"**Node**：拒绝 PATH 覆盖；无头节点仅接受前缀添加",
	} {
		t.Run(sentence, func(t *testing.T) {
			o := node
			o.Call = map[string]string{"PATH": "/c:/usr/bin:/bin"}
			env, err := Node(o)
			if got := lookup(t, env, "PATH"); err != nil || got != "/c:/usr/bin:/bin" {
				t.Errorf("PATH=%s, %v", got, err)
			}
			o.Call = map[string]string{"PATH": "/c"}
			if _, err := Node(o); !errors.Is(err, corral.ErrDenied) {
				t.Errorf("a replacement: %v", err)
			}
		})
	}
	t.Run("macOS ノードは `PATH` の上書きを完全に破棄します。", func(t *testing.T) {
		o := node
		o.Kind, o.GOOS, o.Call = NodeMacApp, "darwin", map[string]string{"PATH": "/c:/usr/bin:/bin"}
		env, err := Node(o)
		if got := lookup(t, env, "PATH"); err != nil || got != "/usr/bin:/bin" || len(env.Dropped) == 0 {
			t.Errorf("PATH=%s, dropped %v, %v", got, env.Dropped, err)
		}
	})
}
