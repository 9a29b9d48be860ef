{{/* Templates that both charts share. A test checks that the two copies are the same. */}}

{{- define "fairlead.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{/* Leaves room for the longest suffix. */}}
{{- define "fairlead.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "fairlead.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "fairlead.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "fairlead.namespace" -}}
{{- .Values.fleetSystemNamespace -}}
{{- end }}

{{- define "fairlead.selectorLabels" -}}
app.kubernetes.io/name: {{ include "fairlead.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "fairlead.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "fairlead.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: fairlead
{{- end }}

{{- define "fairlead.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "fairlead.serviceAccount" -}}
{{- default (printf "%s-sa" (include "fairlead.fullname" .)) .Values.serviceAccount.name -}}
{{- end }}

{{/* logVerbosity is a value of the charts of fleet-networking: 4 and more is their level for debugging. */}}
{{- define "fairlead.logLevel" -}}
{{- if .Values.logLevel -}}
{{- .Values.logLevel -}}
{{- else if ge (int .Values.logVerbosity) 4 -}}
debug
{{- else -}}
info
{{- end -}}
{{- end }}

{{/* Pod Security Standard "restricted", and in addition a fixed user and a read-only file system. */}}
{{- define "fairlead.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "fairlead.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* Scheduling of pods. Arguments: root, and component, whose replicas are spread. */}}
{{- define "fairlead.placement" -}}
{{- $root := .root -}}
{{- $at := .values -}}
{{- with $at.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $at.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $at.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- $affinity := deepCopy ($at.affinity | default dict) }}
{{- $apart := get $affinity "podAntiAffinity" | default dict }}
{{- $preferred := "preferredDuringSchedulingIgnoredDuringExecution" }}
{{- $own := include "fairlead.apart" (dict "root" $root "component" .component) | fromYamlArray }}
{{- $_ := set $apart $preferred (concat $own (get $apart $preferred | default list)) }}
{{- $_ := set $affinity "podAntiAffinity" $apart }}
affinity: {{- toYaml $affinity | nindent 2 }}
{{- with $at.topologySpreadConstraints }}
topologySpreadConstraints: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/*
Copies are on nodes of their own, and in zones of their own, where there are enough. Spread constraints would not do:
kube-scheduler ignores all of them on nodes that lack a key, as nodes without zones do.
*/}}
{{- define "fairlead.apart" -}}
{{- $root := .root -}}
{{- $component := .component -}}
{{- range $key, $weight := dict "kubernetes.io/hostname" 100 "topology.kubernetes.io/zone" 50 }}
- weight: {{ $weight }}
  podAffinityTerm:
    topologyKey: {{ $key }}
    labelSelector:
      matchLabels:
        {{- include "fairlead.selectorLabels" $root | nindent 8 }}
        app.kubernetes.io/component: {{ $component }}
{{- end }}
{{- end }}

{{/* Annotations of pods: those of the values, and checksums that restart the pods. */}}
{{- define "fairlead.imagePullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Rules of one role, from the file that is generated from the programs' declarations. Arguments: root, rules. */}}
{{- define "fairlead.rules" -}}
{{- $rules := .root.Files.Get "files/rules.yaml" | fromYaml -}}
{{- toYaml (required (printf "files/rules.yaml has no %s" .rules) (get $rules .rules)) -}}
{{- end }}

{{/* Values of the charts of fleet-networking that have no effect here. */}}
{{- define "fairlead.ignored" -}}
{{- $ignored := list -}}
{{- range tuple "crdInstaller" "azureCloudConfig" "enableTrafficManagerFeature" "refreshtoken" "azure" "enableNetworkingFeatures" -}}
{{- if hasKey $.Values . -}}
{{- $ignored = append $ignored . -}}
{{- end -}}
{{- end -}}
{{- join ", " $ignored -}}
{{- end }}

{{/*
Alerts, each of this release's own series. Those of a pod are known by their namespace and name, however they are scraped:
a ReplicaSet's hash and a random part are behind the Deployment's name. Arguments: root, file.
*/}}
{{- define "fairlead.alerts" -}}
{{- $root := .root -}}
{{- $name := include "fairlead.fullname" $root -}}
{{- $series := printf "namespace=%q,pod=~\"%s-" (include "fairlead.namespace" $root) $name -}}
{{- $copies := "[a-z0-9]+(-[a-z0-9]+)?\"" -}}
{{- $root.Files.Get .file
      | replace "$manager" (print $series $copies)
      | replace "$dns" (print $series "dns-" $copies)
      | replace "$namespace" (include "fairlead.namespace" $root)
      | replace "$name" $name
      | replace "$runbook" $root.Values.prometheusRule.runbookUrl -}}
{{- end }}
