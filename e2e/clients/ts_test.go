//go:build e2e

package clients_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/built"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/internal/test/testdir"
)

// The tests of the package @corral-exec/client run against its archive, not against its
// sources.
func TestTypeScript(t *testing.T) {
	enginetest.New(t) // with the image
	dir := testdir.New(t)
	program := built.Program(t, "cmd/corral")
	source := filepath.Join(dir, "source")
	for _, name := range []string{"package.json", "package-lock.json", "tsconfig.json", "tsconfig.browser.json", "README.md", "src", "test"} {
		copyTo(t, filepath.Join(source, name), filepath.Join("../../clients/ts", name))
	}
	run(t, source, nil, "npm", "ci", "--no-audit", "--no-fund")
	run(t, source, nil, "npm", "run", "build")
	archive := filepath.Join(source, run(t, source, nil, "npm", "pack", "--silent"))

	user := filepath.Join(dir, "user")
	if err := os.Mkdir(user, 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(user, "package.json"), `{"private":true,"type":"module"}`)
	run(t, user, nil, "npm", "install", "--offline", "--no-audit", "--no-fund", archive)
	copyTo(t, filepath.Join(user, "test"), filepath.Join(source, "test"))
	if at := run(t, user, nil, "node", "-e", `import("@corral-exec/client").then(() => console.log(require.resolve("@corral-exec/client")))`); !strings.HasPrefix(at, user) {
		t.Fatalf("the package is from %s", at)
	}

	t.Run("examples", func(t *testing.T) { checkExamples(t, source, user) })
	tests, err := filepath.Glob(filepath.Join(user, "test", "*.test.mjs"))
	if err != nil || len(tests) == 0 {
		t.Fatalf("the tests are %q: %v", tests, err)
	}
	env := []string{"CORRAL_BIN=" + program, "CORRAL_TEST_IMAGE=" + images.Busybox, "CORRAL_TEST_DIR=" + dir, "NODE_OPTIONS="}
	out := run(t, user, env, "node", append([]string{"--test", "--test-reporter=tap"}, tests...)...)
	t.Log(out)
	passed(t, out, func(name string) string { return `(?m)^ *ok \d+ - scenario ` + name + `$` })

	t.Run("browser", func(t *testing.T) {
		testBrowser(t, program, filepath.Join(user, "node_modules", "@corral-exec", "client", "dist"))
	})
	t.Run("deno", func(t *testing.T) {
		deno := filepath.Join(run(t, "", nil, "../npm.sh", "clients"), ".bin", "deno")
		env := append(env, "NO_COLOR=1", "DENO_DIR="+filepath.Join(dir, "deno"), "SHELL=/bin/sh")
		out := run(t, user, env, deno, "test", "--allow-all", "--no-check", "--cached-only", "test/scenarios.test.mjs", "test/cut.test.mjs")
		t.Log(out)
		passed(t, out, func(name string) string { return `(?m)^ *scenario ` + name + ` \.\.\..* ok \(` })
	})
}

var example = regexp.MustCompile("(?ms)^```ts\n(.*?)^```$")

// checkExamples compiles the examples of the documentation as a user of the package would,
// once with the types of Node and once with those of browsers.
func checkExamples(t *testing.T, source, user string) {
	var files []string
	for _, page := range []string{"docs/how-to/typescript.md", "clients/ts/README.md"} {
		text, err := os.ReadFile(filepath.Join("../..", page))
		if err != nil {
			t.Fatal(err)
		}
		found := example.FindAllStringSubmatch(string(text), -1)
		if len(found) == 0 {
			t.Errorf("%s has no example", page)
		}
		for _, f := range found {
			name := "example" + strconv.Itoa(len(files)) + ".ts"
			writeFile(t, filepath.Join(user, name), f[1])
			files = append(files, name)
		}
	}
	tsc := filepath.Join(source, "node_modules", "typescript", "bin", "tsc")
	types := filepath.Join(source, "node_modules", "@types")
	check := []string{tsc, "--noEmit", "--strict", "--target", "es2022", "--module", "nodenext"}
	run(t, user, nil, "node", append(append(check, "--lib", "es2022", "--typeRoots", types, "--types", "node"), files...)...)

	writeFile(t, filepath.Join(user, "browser.ts"), `import { Corral, NotFoundError, type Event } from "@corral-exec/client";
export async function read(signal: AbortSignal): Promise<number | null> {
  const session = await new Corral({ url: "http://localhost:7777", fetch }).start(["true"], { signal });
  let last: Event | undefined;
  for await (const event of session.log({ offset: 1, signal })) last = event;
  // @ts-expect-error: only the event exit has it
  last?.exitCode;
  if (last?.type === "gap") throw new NotFoundError("gone");
  return last?.type === "exit" ? last.exitCode : null;
}
`)
	run(t, user, nil, "node", append(check, "--lib", "es2022,dom", "browser.ts")...)

	// The adapter is what the AI SDK wants, whose package is with the sources.
	writeFile(t, filepath.Join(source, "ai.ts"), `import type { Experimental_SandboxSession } from "ai";
import { Corral } from "@corral-exec/client";
import { sandboxSession } from "@corral-exec/client/ai";
export const session: Experimental_SandboxSession = sandboxSession(new Corral({ url: "http://localhost:7777" }), { sandbox: "main" });
`)
	run(t, source, nil, "node", append(check, "--lib", "es2022,dom", "--skipLibCheck", "--typeRoots", types, "--types", "node", "ai.ts")...)
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// copyTo copies a file, or a directory with what is in it.
func copyTo(t *testing.T, to, from string) {
	t.Helper()
	info, err := os.Stat(from)
	if err != nil {
		t.Fatal(err)
	}
	if info.IsDir() {
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
		return
	}
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, to, string(data))
}
