/*
 * A library in the place of NVML. It knows nothing: each call goes to the test as one message on the socket beside the
 * library's own file, and what comes back is copied to where the call's arguments point.
 *
 * Call:   u32 length of the name, name, u32 length of the input, input.
 * Answer: u32 status, u32 length of the output, output.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "whole.h"

#define UNKNOWN_ERROR 999

typedef void *device_t;

static int connected(void)
{
    Dl_info self;
    struct sockaddr_un place = { .sun_family = AF_UNIX };
    if (!dladdr((void *)&connected, &self))
        return -1;
    snprintf(place.sun_path, sizeof place.sun_path, "%s.sock", self.dli_fname);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&place, sizeof place) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Returns the status; *got is the output, of *got_len bytes, which the caller frees. */
static uint32_t ask(const char *name, const void *in, uint32_t in_len, char **got, uint32_t *got_len)
{
    uint32_t name_len = (uint32_t)strlen(name), status = UNKNOWN_ERROR;
    int fd = connected();
    *got = NULL;
    *got_len = 0;
    if (fd < 0)
        return UNKNOWN_ERROR;
    int good = whole(fd, &name_len, 4, 0) && whole(fd, (void *)name, name_len, 0)
        && whole(fd, &in_len, 4, 0) && whole(fd, (void *)in, in_len, 0)
        && whole(fd, &status, 4, 1) && whole(fd, got_len, 4, 1);
    if (good && (*got = malloc(*got_len + 1)) != NULL)
        good = whole(fd, *got, *got_len, 1);
    close(fd);
    return good ? status : UNKNOWN_ERROR;
}

static uint32_t fill(const char *name, const void *in, uint32_t in_len, void *out, uint32_t room)
{
    char *got;
    uint32_t len, status = ask(name, in, in_len, &got, &len);
    if (got != NULL)
        memcpy(out, got, len < room ? len : room);
    free(got);
    return status;
}

static uint32_t of_device(const char *name, device_t device, void *out, uint32_t room)
{
    uint64_t handle = (uint64_t)(uintptr_t)device;
    return fill(name, &handle, sizeof handle, out, room);
}

/* A device's structure that also goes in, behind the handle. */
static uint32_t exchange(const char *name, device_t device, void *structure, uint32_t len)
{
    char *in = malloc(8 + len);
    uint64_t handle = (uint64_t)(uintptr_t)device;
    memcpy(in, &handle, 8);
    memcpy(in + 8, structure, len);
    uint32_t status = fill(name, in, 8 + len, structure, len);
    free(in);
    return status;
}

uint32_t nvmlInit_v2(void)
{
    return fill(__func__, "", 0, NULL, 0);
}

uint32_t nvmlShutdown(void)
{
    return fill(__func__, "", 0, NULL, 0);
}

uint32_t nvmlSystemGetDriverVersion(char *version, uint32_t length)
{
    return fill(__func__, "", 0, version, length);
}

uint32_t nvmlSystemGetConfComputeState(void *state)
{
    return fill(__func__, "", 0, state, 12);
}

uint32_t nvmlSystemGetConfComputeSettings(void *settings)
{
    return fill(__func__, settings, 20, settings, 20);
}

uint32_t nvmlSystemGetConfComputeGpusReadyState(uint32_t *ready)
{
    return fill(__func__, "", 0, ready, 4);
}

uint32_t nvmlSystemSetConfComputeGpusReadyState(uint32_t ready)
{
    return fill(__func__, &ready, 4, NULL, 0);
}

uint32_t nvmlDeviceGetCount_v2(uint32_t *count)
{
    return fill(__func__, "", 0, count, 4);
}

uint32_t nvmlDeviceGetHandleByIndex_v2(uint32_t index, device_t *device)
{
    return fill(__func__, &index, 4, device, 8);
}

uint32_t nvmlDeviceGetPciInfo_v3(device_t device, void *pci)
{
    return of_device(__func__, device, pci, 68);
}

#ifndef LACKS_PDI
uint32_t nvmlDeviceGetPdi(device_t device, void *pdi)
{
    return exchange(__func__, device, pdi, 16);
}
#endif

uint32_t nvmlDeviceGetUUID(device_t device, char *uuid, uint32_t length)
{
    return of_device(__func__, device, uuid, length);
}

uint32_t nvmlDeviceGetVbiosVersion(device_t device, char *version, uint32_t length)
{
    return of_device(__func__, device, version, length);
}

uint32_t nvmlDeviceGetArchitecture(device_t device, uint32_t *architecture)
{
    return of_device(__func__, device, architecture, 4);
}

uint32_t nvmlDeviceGetMigMode(device_t device, uint32_t *current, uint32_t *pending)
{
    uint32_t modes[2] = { *current, *pending };
    uint32_t status = of_device(__func__, device, modes, sizeof modes);
    *current = modes[0];
    *pending = modes[1];
    return status;
}

uint32_t nvmlDeviceGetMaxMigDeviceCount(device_t device, uint32_t *count)
{
    return of_device(__func__, device, count, 4);
}

uint32_t nvmlDeviceGetMigDeviceHandleByIndex(device_t device, uint32_t index, device_t *slice)
{
    uint64_t in[2] = { (uint64_t)(uintptr_t)device, index };
    return fill(__func__, in, sizeof in, slice, 8);
}

uint32_t nvmlDeviceIsMigDeviceHandle(device_t device, uint32_t *is)
{
    return of_device(__func__, device, is, 4);
}

uint32_t nvmlDeviceGetVirtualizationMode(device_t device, uint32_t *mode)
{
    return of_device(__func__, device, mode, 4);
}

uint32_t nvmlDeviceGetConfComputeMemSizeInfo(device_t device, void *sizes)
{
    return of_device(__func__, device, sizes, 16);
}

uint32_t nvmlDeviceGetUtilizationRates(device_t device, void *rates)
{
    return of_device(__func__, device, rates, 8);
}

static uint32_t processes(const char *name, device_t device, uint32_t *count, char *infos)
{
    uint64_t in[2] = { (uint64_t)(uintptr_t)device, *count };
    uint32_t room = *count * 24, len, status;
    char *got;
    status = ask(name, in, sizeof in, &got, &len);
    if (got != NULL && len >= 4) {
        memcpy(count, got, 4);
        len -= 4;
        memcpy(infos, got + 4, len < room ? len : room);
    }
    free(got);
    return status;
}

uint32_t nvmlDeviceGetComputeRunningProcesses_v3(device_t device, uint32_t *count, void *infos)
{
    return processes(__func__, device, count, infos);
}

uint32_t nvmlDeviceGetMPSComputeRunningProcesses_v3(device_t device, uint32_t *count, void *infos)
{
    return processes(__func__, device, count, infos);
}

uint32_t nvmlDeviceGetConfComputeGpuAttestationReport(device_t device, void *report)
{
    return exchange(__func__, device, report, 12332);
}

uint32_t nvmlDeviceGetConfComputeGpuCertificate(device_t device, void *certificate)
{
    return exchange(__func__, device, certificate, 9224);
}
