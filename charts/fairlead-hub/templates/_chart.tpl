{{/* What this chart runs, in the words of the programs. */}}
{{- define "fairlead.role" -}}
hub
{{- end }}

{{/* A Go duration of hours, minutes and seconds, such as 2m0s, as a number of seconds. */}}
{{- define "fairlead.forceDeleteSeconds" -}}
{{- $text := .Values.forceDeleteWaitTime -}}
{{- $seconds := 0 -}}
{{- range $unit, $factor := dict "h" 3600 "m" 60 "s" 1 -}}
{{- $part := regexFind (printf "[0-9]+%s" $unit) $text -}}
{{- if $part -}}
{{- $seconds = add $seconds (mul (trimSuffix $unit $part | int) $factor) -}}
{{- end -}}
{{- end -}}
{{- $seconds -}}
{{- end }}

{{/* The programs of this chart whose metrics are read. */}}
{{- define "fairlead.components" -}}
[hub]
{{- end }}
