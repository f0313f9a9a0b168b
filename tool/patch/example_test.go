package patch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/corral-exec/corral/tool/patch"
)

func Example() {
	workspace, err := os.MkdirTemp("", "workspace-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(workspace)
	hello := filepath.Join(workspace, "hello.py")
	if err := os.WriteFile(hello, []byte("def hello():\n    print('hi')\n"), 0o644); err != nil {
		log.Fatal(err)
	}

	tool := patch.New(patch.Config{Target: patch.Directory{Path: workspace}})
	arguments, err := json.Marshal(map[string]string{"input": `*** Begin Patch
*** Update File: hello.py
@@ def hello():
-    print('hi')
+    print('hello')
*** Add File: docs/hello.md
+# Hello
*** End Patch`})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(tool.Call(context.Background(), arguments).Text())

	content, err := os.ReadFile(hello)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(string(content))
	// Output:
	// Success. Updated the following files:
	// A docs/hello.md
	// M hello.py
	// def hello():
	//     print('hello')
}
