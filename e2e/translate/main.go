// Translates objects with the library of upstream's sidecars: the oracle of the tests of ../../migration.
//
// A request is one line of JSON on standard input, the answer to it one line on standard output:
// "ok" with what came out, "error" with the text, or "panic" with what was said. With "times": n the
// library is asked n times, since it gives one of several results where keys collide, and "ok" is a
// list of those that differ.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"

	v1 "k8s.io/api/core/v1"
	storage "k8s.io/api/storage/v1"
	translation "k8s.io/csi-translation-lib"
	"k8s.io/klog/v2"
)

type request struct {
	Op        string                `json:"op"`
	PV        *v1.PersistentVolume  `json:"pv"`
	Class     *storage.StorageClass `json:"class"`
	Volume    *v1.Volume            `json:"volume"`
	Plugin    string                `json:"plugin"`
	Namespace string                `json:"namespace"`
	Driver    string                `json:"driver"`
	Handle    string                `json:"handle"`
	Node      string                `json:"node"`
	Times     int                   `json:"times"`
}

type answer struct {
	Ok    any    `json:"ok,omitempty"`
	Error string `json:"error,omitempty"`
	Panic string `json:"panic,omitempty"`
}

func translate(lib translation.CSITranslator, logger klog.Logger, asked *request) (any, error) {
	switch asked.Op {
	case "pv-to-csi":
		return lib.TranslateInTreePVToCSI(logger, asked.PV)
	case "csi-to-pv":
		return lib.TranslateCSIPVToInTree(asked.PV)
	case "class":
		return lib.TranslateInTreeStorageClassToCSI(logger, asked.Plugin, asked.Class)
	case "inline":
		return lib.TranslateInTreeInlineVolumeToCSI(logger, asked.Volume, asked.Namespace)
	case "repair":
		return lib.RepairVolumeHandle(asked.Driver, asked.Handle, asked.Node)
	case "plugin-name":
		return lib.GetInTreePluginNameFromSpec(asked.PV, asked.Volume)
	case "csi-name":
		return lib.GetCSINameFromInTreeName(asked.Plugin)
	case "in-tree-name":
		return lib.GetInTreeNameFromCSIName(asked.Driver)
	}
	return nil, fmt.Errorf("no such operation: %q", asked.Op)
}

func answered(lib translation.CSITranslator, logger klog.Logger, asked *request) (out answer) {
	defer func() {
		if said := recover(); said != nil {
			out = answer{Panic: fmt.Sprint(said)}
		}
	}()
	got, err := translate(lib, logger, asked)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Ok: got}
}

// What differs among the answers to the same question.
func outcomes(lib translation.CSITranslator, logger klog.Logger, asked *request) answer {
	seen := map[string]bool{}
	var all []json.RawMessage
	for range asked.Times {
		once := answered(lib, logger, asked)
		text, err := json.Marshal(once)
		if err != nil {
			return answer{Panic: err.Error()}
		}
		if !seen[string(text)] {
			seen[string(text)] = true
			all = append(all, text)
		}
	}
	return answer{Ok: all}
}

func main() {
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	lib, logger := translation.New(), klog.NewKlogr()
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	for {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			var asked request
			var said answer
			if wrong := json.Unmarshal(line, &asked); wrong != nil {
				said = answer{Panic: "no request: " + wrong.Error()}
			} else if asked.Times > 0 {
				said = outcomes(lib, logger, &asked)
			} else {
				said = answered(lib, logger, &asked)
			}
			if wrong := encoder.Encode(said); wrong != nil {
				fmt.Fprintln(os.Stderr, wrong)
				os.Exit(1)
			}
		}
		// What was asked is answered before more is waited for, the rest of a line too.
		if next, _ := lines.Peek(lines.Buffered()); bytes.IndexByte(next, '\n') < 0 {
			if wrong := out.Flush(); wrong != nil {
				os.Exit(1)
			}
		}
		if err != nil {
			return
		}
	}
}
