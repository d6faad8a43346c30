{{/* The one container of a pod where sidecars is "together". */}}

{{/* Sidecars of a kind of pod, in the order of their containers, as a JSON list: dict root, place (controller,
     node, or all for both in one pod). */}}
{{- define "csi-sidecars.chosen" -}}
{{- $values := .root.Values -}}
{{- $onNodes := $values.features.nodeDeployment -}}
{{- $names := list -}}
{{- if ne .place "controller" -}}
{{- $names = append $names "registrar" -}}
{{- if $onNodes -}}{{- $names = concat $names (list "provisioner" "snapshotter") -}}{{- end -}}
{{- end -}}
{{- if ne .place "node" -}}
{{- $names = concat $names (ternary (list "attacher" "resizer" "healthMonitor") (list "provisioner" "attacher" "resizer" "snapshotter" "healthMonitor") $onNodes) -}}
{{- end -}}
{{- $chosen := list -}}
{{- range $name := append $names "livenessprobe" -}}
{{- if (get $values $name).enabled -}}{{- $chosen = append $chosen $name -}}{{- end -}}
{{- end -}}
{{- toJson $chosen -}}
{{- end -}}

{{- define "csi-sidecars.together" -}}
{{- ternary "true" "" (eq .Values.sidecars "together") -}}
{{- end -}}

{{/* A sidecar's name in --controllers and in front of its flags. */}}
{{- define "csi-sidecars.controllerName" -}}
{{- get (dict "registrar" "node-driver-registrar" "healthMonitor" "health-monitor") . | default . -}}
{{- end -}}

{{/* Flags that one process has once, as a JSON list; the program refuses them with a name in front. */}}
{{- define "csi-sidecars.together.once" -}}
{{- toJson (list "version" "kubeconfig" "master" "csi-address" "controllers" "http-endpoint" "metrics-address" "metrics-path" "health-port" "automaxprocs" "enable-otel-tracing" "why-endpoint"
  "v" "vmodule" "logging-format" "log-flush-frequency" "log-text-split-stream" "log-text-info-buffer-size" "log-json-split-stream" "log-json-info-buffer-size"
  "leader-election" "leader-election-namespace" "leader-election-lease-duration" "leader-election-renew-deadline" "leader-election-retry-period"
  "leader-election-labels"
  "secure-http-endpoint" "tls-cert-file" "tls-private-key-file" "tls-min-version" "client-ca-file" "authorization-always-allow-paths") -}}
{{- end -}}

{{/* The command lines of the chosen sidecars as one: what is said once first, and then everything else with
     the name of its controller in front. dict root (with together: chosen names). */}}
{{- define "csi-sidecars.flags.together" -}}
{{- $once := include "csi-sidecars.together.once" . | fromJsonArray -}}
{{- $controllers := list -}}
{{- $common := list -}}
{{- $own := list -}}
{{- range $name := .together -}}
{{- $controller := include "csi-sidecars.controllerName" $name -}}
{{- $controllers = append $controllers $controller -}}
{{- range $flag := include (printf "csi-sidecars.flags.%s" $name) $ | fromYamlArray -}}
{{- $bare := regexReplaceAll "^-+" $flag "" -}}
{{- if has (regexFind "^[^=]+" $bare) $once -}}
{{- $common = append $common $flag | uniq -}}
{{- else -}}
{{- $own = append $own (printf "--%s-%s" $controller $bare) -}}
{{- end -}}
{{- end -}}
{{- range $flag := (get $.Values $name).extraArgs -}}
{{- $bare := regexReplaceAll "^-+" $flag "" -}}
{{- if has (regexFind "^[^=]+" $bare) $once -}}
{{- fail (printf "%s.extraArgs: with sidecars=together %s is said once for all controllers: put it into together.extraArgs" $name $flag) -}}
{{- end -}}
{{- $own = append $own (printf "--%s-%s" $controller $bare) -}}
{{- end -}}
{{- end -}}
{{- toYaml (concat (list (printf "--controllers=%s" (join "," $controllers))) $common $own) }}
{{- end -}}

{{/* What belongs to one sidecar and cannot be in one process. */}}
{{- define "csi-sidecars.together.check" -}}
{{- range $name := .chosen -}}
{{- $sidecar := get $.root.Values $name -}}
{{- range $key, $way := dict
    "image" "there is one image, together.image"
    "repository" "there is one image, together.repository"
    "tag" "there is one image, together.tag"
    "pullPolicy" "there is one image, together.pullPolicy"
    "containerName" "there is one container, together.containerName"
    "log" "there is one log, say it in log"
    "securityContext" "there is one container, say it in together.securityContext"
    "livenessProbe" "there is one container, say it in together.livenessProbe"
    "readinessProbe" "there is one container, say it in together.readinessProbe" -}}
{{- if get $sidecar $key -}}
{{- fail (printf "%s.%s: with sidecars=together %s; or set sidecars=separate" $name $key $way) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $elect := or (has "attacher" .chosen) (has "resizer" .chosen) (has "healthMonitor" .chosen) -}}
{{- $locally := and .root.Values.features.nodeDeployment (or (has "provisioner" .chosen) (has "snapshotter" .chosen)) -}}
{{- if and $elect $locally .root.Values.controller.leaderElection.enabled -}}
{{- fail "features.nodeDeployment: with sidecars=together a pod has one setting of leader election, and csi-attacher, csi-resizer and csi-external-health-monitor-controller need it: set attacher.enabled=false, resizer.enabled=false and healthMonitor.enabled=false, or sidecars=separate" -}}
{{- end -}}
{{- end -}}

{{/* Lists of all chosen sidecars as one, without repetitions: dict root, chosen, key, more (list). Two of one
     name must be the same. JSON. */}}
{{- define "csi-sidecars.together.joined" -}}
{{- $joined := list -}}
{{- $by := dict -}}
{{- $all := dict "more" .more -}}
{{- range $name := .chosen -}}
{{- $_ := set $all $name (get (get $.root.Values $name) $.key) -}}
{{- end -}}
{{- range $name := concat (list "more") .chosen -}}
{{- range $item := get $all $name -}}
{{- $id := default (toJson $item) (default $item.name $item.mountPath) -}}
{{- if not (hasKey $by $id) -}}
{{- $_ := set $by $id $item -}}
{{- $joined = append $joined $item -}}
{{- else if ne (toJson (get $by $id)) (toJson $item) -}}
{{- fail (printf "%s.%s: with sidecars=together there is one container, and it has another %s already" $name $.key $id) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $joined -}}
{{- end -}}

{{/* dict root, place, pod (controller, node or all) */}}
{{- define "csi-sidecars.together.container" -}}
{{- $chosen := include "csi-sidecars.chosen" (dict "root" .root "place" .pod) | fromJsonArray -}}
{{- if $chosen -}}
{{- $values := (include "csi-sidecars.placed" (list .root .place) | fromJson).Values -}}
{{- $root := merge (dict "Values" $values "together" $chosen) (omit .root "Values") -}}
{{- include "csi-sidecars.together.check" (dict "root" $root "chosen" $chosen) -}}
{{- $api := false -}}
{{- range $name := list "attacher" "provisioner" "resizer" "snapshotter" "healthMonitor" -}}
{{- $api = or $api (has $name $chosen) -}}
{{- end -}}
{{- $taint := and (has "registrar" $chosen) (not (empty (include "csi-sidecars.startupTaint" $root))) -}}
{{- /* The image of all programs serves here, too: csi-node-sidecars contains no controllers. */}}
{{- $name := ternary "csi-sidecars" "csi-node-sidecars" $api -}}
{{- $section := ternary $values.together $values.togetherOnNodes $api -}}
{{- $sidecar := set (deepCopy $section) "port" $values.livenessprobe.port -}}
{{- $program := ternary "csi-sidecars" $name (and $values.image.multiCall (not (include "csi-sidecars.image.own" $sidecar))) -}}
{{- $join := dict "root" $root "chosen" $chosen -}}
{{- $env := list -}}
{{- range $name := list "provisioner" "snapshotter" "registrar" -}}
{{- if has $name $chosen -}}
{{- $env = concat $env (include (printf "csi-sidecars.%s.env" $name) $root | fromYamlArray) | uniq -}}
{{- end -}}
{{- end -}}
{{- if has "--enable-otel-tracing=true" (include "csi-sidecars.flags.together" $root | fromYamlArray) -}}
{{- $env = concat $env (include "csi-sidecars.tracing.env" (list $root $sidecar) | fromYamlArray) -}}
{{- end -}}
{{- $mounts := list -}}
{{- if has "registrar" $chosen -}}
{{- $mounts = append $mounts (include "csi-sidecars.registrar.mount" $root | fromYaml) -}}
{{- end -}}
{{- range $key := list "env" "envFrom" "volumeMounts" -}}
{{- $more := get (dict "env" $env "envFrom" list "volumeMounts" $mounts) $key -}}
{{- $more = concat $more (default list (get $sidecar $key)) -}}
{{- $_ := set $sidecar $key (include "csi-sidecars.together.joined" (merge (dict "key" $key "more" $more) $join) | fromJsonArray) -}}
{{- end -}}
{{- $probes := not (empty $sidecar.port) -}}
{{- include "csi-sidecars.container" (dict "root" $root "sidecar" $sidecar "name" $name "program" $program "flags" "csi-sidecars.flags.together" "portName" "sidecars"
  "place" .place "pod" .pod "api" (or $api $taint) "probe" (ternary "/livez" "" $probes) "ready" (ternary "/readyz" "" $probes)) -}}
{{- end -}}
{{- end -}}
